"""Encodings of lines that are not UTF-8, chosen by what their letters and words look like. Pure.

A note may have parts in other encodings, which a program appended. A short line fits many encodings
and few languages, so the choice counts frequent characters, function words and impossible letters.
"""

import re
import unicodedata
from functools import cache

from memoryd.text.language import every_function_word

SAMPLE_BYTES = 160
"""Bytes of a line that are looked at."""
LEAST = 0.25
"""Least value per byte outside ASCII; a line below it is in no known encoding."""
SURE = 0.8
"""Value per byte outside ASCII from which the encoding of the line before is taken at once."""
WORD = 1.5
"""Value of a function word with letters outside ASCII."""

FREE_SCORES = 50_000
"""Characters of a file that are scored, each for each encoding, however short the file is."""
SCORES_PER_BYTE = 0.05
"""Further scores for each byte of the lines that are not UTF-8."""
LEAST_SCORES = 20
"""Scores that any attempt counts for."""
SETTLED_LINES = 50
"""Scored lines in a row in one code page; then those without unusual bytes are in it, too."""
MOST_UNUSUAL = 0.05
"""Most unusual bytes of a line that is not scored, as a share of those outside ASCII."""
_HIGH = bytes(range(0x80, 0x100))

WIDE = ("gb18030", "shift_jis", "cp949", "big5")
ALPHABETS = {
    "cp1252": (
        *("äöüß", "éèêàâçîôûùëïœ", "ñáéíóúü", "ãõçáéíóúâêôà", "àèéìòù", "åäöé", "åæøé", "ëïéèöü"),
        *("ðþáéíóúýæö", "àèéíïòóúüç"),
    ),
    "cp1250": ("ąęłńśźżćó", "ěřůčšžýáíéúďťňóľĺŕôä", "őűáéíóöúü", "čćđšž", "ăâîşţ"),
    "cp1254": ("ğışçöüâîi̇",),
    "cp1257": ("āēīūģķļņčšž", "ėįųąęčšžū", "õäöüšž"),
}
"""Lowercase letters outside ASCII of each language of a code page of Latin letters."""
SCRIPTS = {
    "cp1251": ("CYRILLIC", "оеаинтсрвлкмдпуіы"),
    "koi8_r": ("CYRILLIC", "оеаинтсрвлкмдпуіы"),
    "cp1253": ("GREEK", "αοιετσνηυρπκλμίάό"),
    "cp1255": ("HEBREW", "יוהלאתרמבש"),
    "cp1256": ("ARABIC", "اليمنتربودعفهسكقحة"),
    "cp874": ("THAI", "านรอกเงมยลวดทสตะปบคห่้ีิไุ"),
}
"""Script of each other code page, and its frequent letters."""
_CYRILLIC = {"cp1251": 1.0, "koi8_r": 0.85}
"""Encodings of one script, with factors for how common they are."""
_FREQUENCIES = {"оеаинтсрвлі": 1.0, "кмдпуы": 0.7, "ъэщфцюжхшч": 0.1}
_OF_CYRILLIC = {letter: value for letters, value in _FREQUENCIES.items() for letter in letters}
_OTHER_LETTER, _CAPITAL = 0.3, 0.8
"""Value of another letter, and the factor on that of a capital after another one."""
ENCODINGS = (*WIDE, *ALPHABETS, *SCRIPTS)
NAMES = (
    {"gb18030": "GB18030", "shift_jis": "Shift-JIS", "cp949": "EUC-KR", "big5": "Big5"}
    | {code_page: f"Windows-{code_page[2:]}" for code_page in (*ALPHABETS, *SCRIPTS)}
    | {"koi8_r": "KOI8-R"}
)
"""Names of the encodings for people."""
PUNCTUATION = frozenset("“”‘’„–—…•€£°«»§©®×·\xa0")
FREQUENT_HAN = frozenset(
    "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里用道行所然家种事成方"
    "多经么去法学如都同现当没动面起看定天分还进好小部其些主样理心她本前开但因只从想实日军者意无力它与长把机十民第公此已工使情"
    "明性知全三又关点正业外将两高间由问很最重并物手应战向头文体政美相见被利什二等产或新己制身果加西斯月话合回特代内信表化老给"
    "世位次度门任常先海通教儿原东声提立及比员解水名真论处走义各入几口认条平系气题活尔更别打女变四神总何电数安少报才结反受目太"
    "量再感建务做接必场件计管期市直德资命山金指克许统区保至队形社便空决治展马科司五基眼书非则听白却界达光放强即像难且权思王象"
    "完设式色路记南品住告类求据程北边死张该交规万取拉格望觉术领共确传师观清今切院让识候带导争运笔会议项目钥匙码周明请改写读备份"
    "這個們來為國說時會對過發後裡種經麼學現當沒動還進樣開從實軍無與長機關點業將兩間問應戰向頭體見產話兒東聲員義幾認條係氣題"
    "爾變總電數報結務場計資許統區隊記邊張規萬領傳師觀讓識帶導爭運號車請訂買賣週備讀寫壞貓"
)
FREQUENT_HANGUL = frozenset(
    "이다의에는을를가한고로하지도사기인은어자리시아나스대서정라그해니일들보부여으제전상만성구면수있주것장과동세했원안게우인공비조"
    "국적모내위거경무연치화회오생소신방선없마음물요데습개문러때미학교산관간았었말않당등야와중되또"
)
_WORD = re.compile(r"[^\W\d_]+")


class EncodingChooser:
    """Chooser of the encoding of each line of a file that is not UTF-8.

    The encoding of the last such line wins if it fits well. The work is bounded by `FREE_SCORES`
    and a share of the text. A line that is not scored is in the encoding of the last one, or in
    none, if it has bytes that are unusual there.
    """

    def __init__(self) -> None:
        self._last: str | None = None
        self._in_a_row = 0
        self._scores_left = float(FREE_SCORES)

    def choose(self, line: bytes) -> str | None:
        """Return the encoding of the next line, None if none fits."""
        self._scores_left = min(FREE_SCORES, self._scores_left + SCORES_PER_BYTE * len(line))
        if _is_mostly_utf8(line):
            return None
        last = self._last
        settled = self._in_a_row >= SETTLED_LINES and last not in WIDE
        if settled or self._scores_left <= 0:
            if last is not None and _may_be(line, last):
                return last
            if self._scores_left <= 0:
                return None
        sample = _sample(line)
        high = len(sample) - len(sample.translate(None, _HIGH))
        values: dict[str, float] = {}
        for encoding in ENCODINGS if last is None else (last, *ENCODINGS):
            if encoding not in values:
                values[encoding] = _value(line, sample, encoding)
                work = len(sample) * len(ALPHABETS.get(encoding, "1"))
                fits = values[encoding] > float("-inf")
                self._scores_left -= max(LEAST_SCORES, work if fits else 0)
            if encoding == last and values[encoding] >= SURE * high:
                self._in_a_row += 1
                return encoding
        best = max(values, key=lambda encoding: values[encoding])
        if values[best] < LEAST * high:
            return None
        if best in _CYRILLIC:
            best = max(_CYRILLIC, key=lambda encoding: _cyrillic_value(sample, encoding))
        self._in_a_row = self._in_a_row + 1 if best == last else 1
        self._last = best
        return best


def _may_be(line: bytes, encoding: str) -> bool:
    """Return whether a line has hardly any character that is unusual in an encoding."""
    if encoding in WIDE:
        return not _fails(line, encoding)
    unusual = line.translate(None, _usual_bytes(encoding))
    high = len(line) - len(line.translate(None, _HIGH))
    return len(unusual) <= MOST_UNUSUAL * high


def _fails(line: bytes, encoding: str) -> bool:
    try:
        line.decode(encoding)
    except UnicodeDecodeError:
        return True
    return False


@cache
def _usual_bytes(encoding: str) -> bytes:
    """Return ASCII, and the letters and signs of the languages of a code page of one byte."""
    if encoding in ALPHABETS:
        letters = frozenset("".join(ALPHABETS[encoding]))
        usual = PUNCTUATION | letters | {letter.upper() for letter in letters}
    else:
        script, _ = SCRIPTS[encoding]
        chars = (bytes([byte]).decode(encoding, "ignore") for byte in range(0x80, 0x100))
        usual = PUNCTUATION | {char for char in chars if char and _script(char) == script}
    return bytes(range(0x80)) + "".join(sorted(usual)).encode(encoding, "ignore")


def _is_mostly_utf8(line: bytes) -> bool:
    """Return whether a line is UTF-8 with a few broken characters."""
    whole = line.decode("utf-8", "ignore").encode()
    good = len(whole) - len(whole.translate(None, _HIGH))
    return good >= 2 * (len(line) - len(whole))


def _sample(line: bytes) -> bytes:
    """Return the part of a line that begins with the first word outside ASCII."""
    if len(line) <= SAMPLE_BYTES:
        return line
    first = next(at for at, byte in enumerate(line) if byte > 0x7F)
    return line[line.rfind(b" ", 0, first) + 1 :][:SAMPLE_BYTES]


def _value(line: bytes, sample: bytes, encoding: str) -> float:
    """Return how well an encoding fits, per byte outside ASCII 1 at best, without words."""
    try:
        if sample is not line:
            line.decode(encoding)
        text = sample.decode(encoding, "strict" if sample is line else "ignore")
    except UnicodeDecodeError:
        return float("-inf")
    if encoding in WIDE:
        return sum(_wide_value(char, encoding) for char in text if char > "\x7f")
    padded = f" {text} "
    near = [(char, padded[at], padded[at + 2]) for at, char in enumerate(text) if char > "\x7f"]
    if encoding in ALPHABETS:
        others = "".join(ALPHABETS[encoding])
        found = max(
            sum(_latin_value(*each, alphabet, others) for each in near)
            for alphabet in ALPHABETS[encoding]
        )
    else:
        found = sum(_letter_value(*each, *SCRIPTS[encoding]) for each in near)
    known = every_function_word()
    words = (word for word in _WORD.findall(text) if len(word) > 1 and not word.isascii())
    return found + sum(WORD for word in words if word.lower() in known)


def _cyrillic_value(sample: bytes, encoding: str) -> float:
    """Return how well one of the Cyrillic encodings fits.

    In the other one, the letters are rarer ones and of the other case.
    """
    text, found = sample.decode(encoding, "ignore"), 0.0
    for left, char in zip(f" {text}", text, strict=False):
        if char > "\x7f" and char.isalpha():
            value = _OF_CYRILLIC.get(char.lower(), _OTHER_LETTER)
            if char.isupper() and left.isalpha():
                value = value * _CAPITAL if left.isupper() else -1.0
            found += value
    return found * _CYRILLIC[encoding]


@cache
def _wide_value(char: str, encoding: str) -> float:
    """Return the value of a character of two bytes."""
    point = ord(char)
    raw = char.encode(encoding)
    if len(raw) != 2:
        return -2.0 * len(raw)  # half a kana, or a character of four bytes
    if encoding == "cp949":
        if 0xAC00 <= point <= 0xD7A3:
            return 2.4 if char in FREQUENT_HANGUL else 0.8 if raw[1] >= 0xA1 else -2.0
        return 1.0 if _is_punctuation(point) else -3.0
    if 0x3040 <= point <= 0x30FF:
        return 2.4 if encoding == "shift_jis" else 0.0
    if 0x4E00 <= point <= 0x9FFF:
        if char in FREQUENT_HAN:
            return 2.2
        common = {"gb18030": (0xB0, 0xD7), "shift_jis": (0x88, 0x97), "big5": (0xA4, 0xC6)}
        low, high = common[encoding]
        return 0.7 if low <= raw[0] <= high else -1.5
    return 1.0 if _is_punctuation(point) else -3.0


def _is_punctuation(point: int) -> bool:
    return 0x3000 <= point <= 0x301F or 0xFF01 <= point <= 0xFF5E or 0x2010 <= point <= 0x2026


def _sign_value(char: str, left: str, right: str) -> float | None:
    """Return the value of a character of one byte that is no letter, None for a letter."""
    if char in PUNCTUATION:
        if left.isalpha() and right.isalpha() and char not in "’·–—":
            return -1.0
        return 0.6 if left.isalnum() or right.isalnum() else 0.1
    if not char.isalpha() and not unicodedata.combining(char):
        return -1.5
    return -2.0 if char.isupper() and left.islower() else None


def _latin_value(char: str, left: str, right: str, alphabet: str, others: str) -> float:
    """Return the value of a letter of an alphabet, or of a sign, between its neighbours.

    A letter of one of the `others` may be in a name or a foreign word.
    """
    if (value := _sign_value(char, left, right)) is not None:
        return value
    if char.lower() not in alphabet:
        return -0.4 if char.lower() in others else -1.5
    crowd = (left > "\x7f" and left.isalpha()) + (right > "\x7f" and right.isalpha())
    if not left.isalpha() and not right.isalpha():
        return -0.5
    return -1.0 if crowd == 2 else 0.4 if crowd else 1.0


def _letter_value(char: str, left: str, right: str, script: str, frequent: str) -> float:
    """Return the value of a letter of a script, or of a sign, between its neighbours."""
    if (value := _sign_value(char, left, right)) is not None:
        return value
    if _script(char) != script:
        return -2.0
    if any(each.isascii() and each.isalpha() for each in (left, right)):
        return -1.5
    if all(_script(each) != script for each in (left, right)):
        return -0.5
    value = 1.0 if char.lower() in frequent else 0.3
    return value / 2 if char.isupper() and left.isupper() else value


@cache
def _script(char: str) -> str:
    return unicodedata.name(char, "").partition(" ")[0]
