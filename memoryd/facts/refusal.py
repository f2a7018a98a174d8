"""Texts that give an agent orders instead of stating a fact. Pure.

A fact goes into prompts unasked, so a stored order would be repeated in every conversation. The
patterns see folded text: lower case, without accents and invisible characters. Those of German and
of Romance and Slavic languages know the forms of verbs that give orders, and begin a clause where
such a form is also that of a statement.
"""

import re

from memoryd.text.fold import fold
from memoryd.text.outside import outside_lines

_CLAUSE = (
    r"(?:(?:^|[.!?:;,(\"'“”«»–—-])\s*|\b(?:please|then|and|bitte|und|et|y|e|a|prosim"
    r"|you(?: must| should| shall| will| have to| need to| can)?)\s+)"
    r"(?:(?:please|now|then|and|always|immediately|also|bitte|jetzt|immer|toujours|siempre)\s+)*"
)
"""The beginning of a clause, up to a verb that gives an order."""
_RULES = r"(?:instructions?|rules?|prompts?|directions?|guidelines?|messages?|anweisungen|regeln)"
_EARLIER = (
    r"(?:previous|prior|earlier|above|preceding|foregoing|former|existing|system|vorherigen?)"
)
_EARLIER_RULES = (
    r"(?=.{0,60}\b(?:all[ers]?n?|deine|vorherig\w*|bisherig\w*|obig\w*|tout(?:es)?|tous|tes|vos"
    r"|precedent\w*|anterieur\w*|ci-dessus|tod[ao]s|tus|sus|anterior\w*|previ[ao]s|tutt[ei]"
    r"|vsech\w*|predchozi\w*|drivejsi\w*|все|свои|предыдущ\w*|прежн\w*)\b)"
    r"(?=.{0,60}\b(?:anweisung\w*|regeln?|vorgaben|befehle?|instru[ck]\w*|consignes?|regles?"
    r"|directives?|ordenes|reglas|regras|indicaciones|istruzioni|regole|pokyn\w*|prikaz\w*"
    r"|pravid\w*|инструкци\w*|указани\w*|правил\w*|команд\w*)\b)"
)
_THINGS = (
    r"(?:tools?|commands?|functions?|shells?|befehle?|werkzeuge?|skript|funktion|commande|outil"
    r"|fonction|comando|herramienta|funcion|prikaz|nastroj|funkci|skript)\b"
)
_ORDERS: dict[str, tuple[str, ...]] = {
    "it asks to disregard instructions": (
        rf"\b(?:ignore|disregard|forget|override|bypass|neglect|ignoriere?|vergiss)\b.{{0,30}}"
        rf"\b{_EARLIER}\b.{{0,20}}\b{_RULES}\b",
        rf"\b(?:ignore|disregard|forget|override)\b.{{0,20}}\b(?:all|any|your|these|those)\b"
        rf".{{0,20}}\b{_RULES}\b",
        r"\b(?:ignore|disregard|forget)\b.{0,20}\b(?:the above|(?:everything|anything|all)"
        r" (?:above|before|(?:that )?you (?:were|have been|know)))\b",
        rf"\bstop (?:following|obeying) (?:your|the|all|any)\b.{{0,20}}\b{_RULES}\b"
        r"|\byou must (?:now )?(?:obey|comply)\b",
        rf"\b(?:ignorier[et]?|vergiss|vergesst|missachte[t]?|ignoruj(?:te)?|zapomen(?:te)?"
        rf"|nedbej(?:te)?|(?:про)?игнорируй(?:те)?|забудь(?:те)?)\b{_EARLIER_RULES}",
        rf"{_CLAUSE}(?:ignore[zs]?|oublie[zs]?|ignor[ae]n?|olvid[ae]n?|esque[cs]\w*|dimentica(?:te)?)\b"
        rf"{_EARLIER_RULES}",
        r"(?:忽略|忽視|忽视|无视|無視|忘记|忘記|忘掉|不要理会|不要遵守|不再遵守).{0,6}"
        r"(?:之前|以前|先前|前面|以上|上面|上述|所有|一切|全部|任何|系统|系統|你的|您的).{0,12}"
        r"(?:指令|指示|规则|規則|规定|規定|提示|要求|命令)",
        r"(?:これまで|今まで|以前|前|上記|上|全て|すべて|全部|あらゆる|システム|元)の?.{0,12}"
        r"(?:指示|指令|命令|ルール|規則|プロンプト).{0,10}(?:無視|忘れ[てろ]|従わない?で|従うな)",
        r"(?:이전|앞|위|지금까지|기존|모든|시스템).{0,12}(?:지시|지침|명령|규칙|프롬프트).{0,10}"
        r"(?:무시|잊어|잊으|따르지)",
    ),
    "it asks to disregard somebody": (
        r"\b(?:do not|don'?t|never) (?:follow|obey|listen to)\b.{0,20}"
        r"\b(?:system|developer|user)\b",
    ),
    "it names the messages that control an agent": (
        r"\b(?:system|developer) (?:prompt|message)\b",
        r"\b(?:print|reveal|show|repeat|output)\b.{0,20}"
        r"\byour (?:hidden|secret|initial|original|own) (?:instructions?|prompts?|rules)\b",
        r"\bsystem-?prompt\b|\bprompt (?:systeme|del sistema)\b|\bsystemov\w+ (?:prompt|zprav)",
        r"(?:系统|系統)(?:提示[词詞]|提示\s*:)|システム.?プロンプト|시스템 ?프롬프트",
    ),
    "it tells an agent what to be": (
        r"\byou are (?:now|from now on)\b|\bfrom now on,? (?:you|always|never|act)\b"
        r"|\b(?:act|behave) as (?:if you|an? (?:unrestricted|different))\b",
        r"\byour new (?:task|goal|role|job|objective|instructions?) (?:is|are)\b"
        r"|\bnew (?:instructions?|orders?)\s*:",
        rf"{_CLAUSE}(?:act|behave|pretend) (?:as|like|to be)\b",
        r"\bab (?:jetzt|sofort|nun) (?:bist|wirst|sollst|musst|darfst) du\b"
        r"|\bdu bist (?:ab )?jetzt\b|\btu es (?:maintenant|desormais)\b"
        r"|\b(?:a partir de maintenant|desormais),? (?:tu|vous)\b"
        r"|\b(?:a partir de|desde) ahora,? (?:eres|tu|usted|seras|debes)\b|\bahora eres\b"
        r"|\bod (?:ted|nynejska) (?:jsi|budes|vzdy|nikdy)\b|\bnyni jsi\b"
        r"|\bтеперь ты\b|\bс этого момента ты\b",
        r"(?:从现在(?:开始|起)|從現在(?:開始|起)|从今以后),?\s?[你您]|[你您](?:现在|現在)起?是",
        r"(?:今|いま|これ)から[は、]*(?:あなた|君|お前)[はが]"
        r"|(?:あなた|君|お前)は(?:今|いま|これ)から",
        r"(?:지금|이제|앞으로)부터? ?(?:너는?|넌|당신은?)(?!\w)"
        r"|(?:너는|넌|당신은) (?:이제|지금)부터",
    ),
    "it asks to run something": (
        rf"{_CLAUSE}(?:run|execute|call|invoke|use|fuhre|starte|rufe?|execute[zs]?|lance[zs]?|ejecut[ae]n?"
        rf"|spust(?:te)?|proved(?:te)?|zavolej(?:te)?)\b.{{0,40}}\b{_THINGS}",
        r"(?:请|請|立即|马上|馬上)(?:执行|執行|运行|運行|调用|調用|使用).{0,20}"
        r"(?:命令|指令|工具|函数|函數|脚本|腳本)",
        r"^(?:执行|執行|运行|運行|调用|調用)(?:以下|下面|这个|這個)?的?(?:命令|指令|脚本|腳本)\b",
        r"(?:コマンド|ツール|スクリプト|関数)を.{0,6}(?:実行|呼び出|使用|使)[しっ]?"
        r"(?:て(?:ください|下さい|くれ)|せよ|しろ)",
        r"(?:명령어?|도구|스크립트|함수)[을를]? ?(?:실행|호출|사용)"
        r"(?:하세요|하십시오|하라|해라|해 ?줘|해 ?주세요)",
    ),
    "it asks to hide something": (
        r"\b(?:do not|don'?t|never) (?:tell|inform|mention (?:this|it) to) the (?:user|owner)\b",
        r"\b(?:sag|sage|verrat|verrate|erzahl|erzahle)\b.{0,20}\b(?:nutzer|benutzer|anwender)\w*\b"
        r".{0,10}\bnichts\b|\bne (?:dis|dites) (?:rien|pas)\b.{0,20}\butilisateur"
        r"|\bno (?:le )?(?:digas|diga|informes?)\b.{0,20}\bal usuario\b"
        r"|\bnerikej(?:te)?\b.{0,20}\buzivatel",
        r"(?:不要|别|別|切勿)(?:告诉|告訴|通知|提醒)(?:用户|用戶|使用者|主人)",
        r"(?:ユーザー?|利用者|オーナー)に?は?.{0,6}(?:言わないで|伝えないで|教えないで|知らせないで)",
        r"(?:사용자|소유자|주인)에게.{0,6}(?:말하지|알리지|언급하지) ?(?:마|말)",
    ),
}
_PATTERNS = [(why, re.compile("|".join(patterns))) for why, patterns in _ORDERS.items()]
_MARKUP = re.compile(
    r"<\s*/?\s*(?:system|assistant|developer|user|(?:tool|function)(?:_\w+)?|instructions?|relevant-memories)\b"
    r"|\[/?inst\]|<\|[a-z_]+\|>|\A\s*assistant\s*:"
    r"|\A\s*system\s*:\s*(?:you|the user|new|ignore|from now)\b",
    re.IGNORECASE,
)


def marks(text: str) -> str | None:
    """Return why a text can't be its author's own words, None if it can."""
    if _MARKUP.search(text):
        return "it has marks of a prompt"
    return "it quotes marked content from outside" if outside_lines(text.splitlines()) else None


def refusal(text: str) -> str | None:
    """Return why a text is refused as a fact, None if it may be one."""
    if (why := marks(text)) is not None:
        return why
    folded = fold(text)
    return next((why for why, pattern in _PATTERNS if pattern.search(folded)), None)
