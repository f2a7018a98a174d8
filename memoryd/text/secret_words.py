"""Words for password, key and token in other languages, and how a sentence tells their value.

A value after one of these words is masked if it has digits or signs, because a word such as
*erforderlich* or *requerida* follows them as often.
"""

import re

from memoryd.text.secret_values import KNOWN_WORD

_WORDS = {
    "de": "passwort passwörter kennwort zugangscode schlüssel api-schlüssel",
    "es": "contraseña contrasena clave clave de acceso",
    "fr": "mot de passe passe clé clef clé d'api jeton mdp",
    "pt": "senha palavra-passe chave",
    "it": "parola d'ordine parola chiave chiave",
    "nl": "wachtwoord sleutel toegangscode",
    "sv": "lösenord lösenordet nyckel nyckeln",
    "da": "adgangskode adgangskoden kodeord kodeordet nøgle nøglen",
    "no": "passord passordet nøkkel nøkkelen",
    "fi": "salasana salasanan salasanani salasanasi avain",
    "pl": "hasło haslo hasłem hasła klucz",
    "cs": "heslo heslem hesla klíč",
    "hu": "jelszó jelszo jelszavam jelszava",
    "ro": "parola parolă",
    "hr": "lozinka zaporka",
    "tr": "şifre şifrem şifren şifreniz şifresi sifre sifresi"
    " parola parolam parolan parolanız parolası anahtar",
    "vi": "mật khẩu mat khau",
    "id": "kata sandi sandi sandinya",
    "et": "parool",
    "ru": "пароль пароля паролем ключ токен",
    "uk": "пароль ключ токен",
    "bg": "парола",
    "el": "κωδικός κωδικος συνθηματικό",
    "zh": "密码 密碼 口令 密钥 密鑰 令牌 金鑰",
    "ja": "パスワード 暗証番号 合言葉 トークン キー",
    "ko": "비밀번호 비번 패스워드 암호 토큰",
    "ar": "كلمة المرور كلمة السر",
    "he": "סיסמה סיסמא",
    "hi": "पासवर्ड",
    "th": "รหัสผ่าน",
    "fa": "رمز عبور گذرواژه",
}
"""Words by language. Groups of words are listed in `_GROUPS` too."""
_GROUPS = (
    *("mot de passe", "clé d'api", "clave de acceso", "parola d'ordine", "parola chiave"),
    *("mật khẩu", "mat khau", "kata sandi", "كلمة المرور", "كلمة السر", "رمز عبور"),
)
_IS = (
    "ist lautet es est é è är er on je to este adalah là είναι это є е jest"
    " is war هو هي היא הוא คือ है"
)
_IS_UNSPACED = "是为為はが는은이가คือ"


def _all_words() -> list[str]:
    found: set[str] = set(_GROUPS)
    for words in _WORDS.values():
        for group in _GROUPS:
            words = words.replace(group, "")
        found.update(words.split())
    return sorted(found, key=len, reverse=True)


_ALL = _all_words()
ASCII_WORDS = tuple(word for word in sorted(_ALL) if word.isascii() and "pass" not in word)
"""Words to search in ASCII text; those with *pass* are found by the search for that."""
OTHER_WORDS = "|".join(re.escape(w) for w in _ALL if not w.isascii())
"""Finds the other words in lowercase text."""
OF_PASSWORD = (
    "密码 密碼 口令 パスワード 暗証番号 合言葉 비밀번호 비번 패스워드 암호 รหัสผ่าน".replace(" ", "|")
)
"""Words for passwords in scripts without spaces, or with endings."""
_QUOTE = "[\"'`«»„“”‚‘’「」『』*]"
OF_VALUE = (
    r"[^\s\"'`«»„“”「」『』\u0e00-\u0e7f\u3000-\u30ff\u3400-\u9fff\uac00-\ud7a3\uff00-\uffef]"
)
OF_TOLD = rf"[ \t]{{0,4}}{_QUOTE}{{0,3}}({OF_VALUE}{{4,200}}+)"
TOLD = (
    rf"(?i)(?:{'|'.join(map(re.escape, _ALL))})(?![A-Za-z0-9_])"
    r"[\"'`*」』]{0,3}(?:[ \t]{0,2}[(（][^()（）\n]{0,40}[)）])?"
    r"(?:[ \t]{1,4}[^\s:：=.,;!?|]{1,20}){0,5}?"
    rf"(?:[ \t]{{0,4}}(?:[:：=＝|]|[-–—](?=[ \t]))\*{{0,2}}"
    rf"|[ \t]{{1,4}}(?:{'|'.join(_IS.split())})(?=[ \t:])[:]?"
    rf"|[ \t]{{0,4}}[{_IS_UNSPACED}][:：]?)"
    f"{OF_TOLD}"
)
"""Value that a text tells after one of the words."""
BESIDE = r"([^\s\"'`/_=$(){}<>-]{6,200}+)"
TOLD_BESIDE = rf"(?i)(?:{'|'.join(map(re.escape, _ALL))})(?![A-Za-z0-9_])[ \t]{{1,4}}{BESIDE}"
"""Value directly after one of the words."""
MIXED = (
    rf"(?:{OF_PASSWORD})[\"'`*」』]{{0,3}}[ \t]{{0,4}}[:：=＝]\*{{0,2}}[ \t]{{0,4}}{_QUOTE}{{0,3}}"
    r"([\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]{1,16}+[!-~]{3,60}+)"
    r"(?![\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3])"
)
"""Finds a value of letters of such a script, and then digits or signs: 密码：猫咪123."""
_SIGNS = "".join(map(chr, range(0x21, 0x7F)))
_REFERS = tuple("见見请請看参參第至最需须修更查")
_TO = tuple("于於在自到至第为為")


def is_reference(head: str, value: str) -> bool:
    """Return whether a value of letters and then digits is a sentence about the password."""
    letters = value.rstrip(_SIGNS)
    digits = value[len(letters) :]
    is_known = not digits.isdigit() and KNOWN_WORD.fullmatch(digits) is not None
    return (
        letters.startswith(_REFERS)
        or letters.endswith(_TO)
        or is_known
        or not any(map(str.isdigit, digits))
    )
