"""Words of the set `dates`: months, weekdays, questions and lines of diaries in eight languages."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Diary:
    """Words of one language; `months` and `weekdays` in the form that the questions need.

    In `on`, `{y}`, `{m}`, `{d}`, `{month}` and `{iso}` stand for parts of the date; in `last_week`,
    `{weekday}` for a day of the week before; in `in_month`, `{month}`, in the form of `in_months`.
    """

    months: tuple[str, ...]
    weekdays: tuple[str, ...]
    on: tuple[str, ...]
    yesterday: str
    before_yesterday: str
    last_week: str
    in_month: str
    lines: tuple[str, ...]
    in_months: tuple[str, ...] = ()


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_NUMBERED = tuple(f"{month}月" for month in range(1, 13))

DIARIES = {
    "en": Diary(
        _names(
            "January February March April May June July August September October November December"
        ),
        _names("Monday Tuesday Wednesday Thursday Friday Saturday Sunday"),
        (
            "what did we do on {month} {d}?",
            "what happened on {d} {month} {y}",
            "notes from {month} {d}, {y}",
            "{iso}",
            "what was decided on {iso}?",
        ),
        "what did we do yesterday?",
        "notes from the day before yesterday",
        "what happened last {weekday}?",
        "what did we do in {month}?",
        (
            "Swept the leaves and oiled the gate.",
            "Long call with the printer about the proofs.",
            "Nadia repaired the shed door.",
            "The team agreed to drop the second mock-up.",
            "Soup for lunch, a walk along the canal.",
            "Sorted the invoices of the quarter.",
            "New tyres on the blue bicycle.",
            "Read the contract twice, two open points.",
        ),
    ),
    "de": Diary(
        _names(
            "Januar Februar März April Mai Juni Juli August September Oktober November Dezember"
        ),
        _names("Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag"),
        (
            "was haben wir am {d}. {month} gemacht?",
            "was war am {d:02}.{m:02}.{y}",
            "Notizen vom {d}. {month} {y}",
            "{d}.{m}.{y}",
            "was wurde am {d}.{m}. beschlossen?",
        ),
        "was haben wir gestern gemacht?",
        "Notizen von vorgestern",
        "was war letzten {weekday}?",
        "was haben wir im {month} gemacht?",
        (
            "Den Keller aufgeräumt, zwei Kisten weg.",
            "Mit der Druckerei über das Papier geredet.",
            "Jonas hat den Zaun gestrichen.",
            "Das Angebot bleibt, wie es ist.",
            "Abends Kartoffelsuppe, danach Kino.",
            "Die Belege des Quartals sortiert.",
            "Neue Bremsen am Lastenrad.",
            "Den Entwurf gelesen, drei Fragen offen.",
        ),
    ),
    "es": Diary(
        _names(
            "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre"
            " diciembre"
        ),
        _names("lunes martes miércoles jueves viernes sábado domingo"),
        (
            "¿qué hicimos el {d} de {month}?",
            "notas del {d} de {month} de {y}",
            "¿qué pasó el {d:02}/{m:02}/{y}?",
            "{iso}",
            "¿qué se decidió el {d} de {month}?",
        ),
        "¿qué hicimos ayer?",
        "notas de anteayer",
        "¿qué pasó el {weekday} pasado?",
        "¿qué hicimos en {month}?",
        (
            "Limpiamos el trastero y tiramos dos cajas.",
            "Llamada larga con la imprenta por el papel.",
            "Lucía arregló la puerta del cobertizo.",
            "El equipo descarta el segundo boceto.",
            "Lentejas para comer y paseo por el río.",
            "Facturas del trimestre ordenadas.",
            "Frenos nuevos en la bici de carga.",
            "Leído el borrador, quedan tres dudas.",
        ),
    ),
    "tr": Diary(
        _names("Ocak Şubat Mart Nisan Mayıs Haziran Temmuz Ağustos Eylül Ekim Kasım Aralık"),
        _names("pazartesi salı çarşamba perşembe cuma cumartesi pazar"),
        (
            "{d} {month} günü ne yaptık?",
            "{d:02}.{m:02}.{y} notları",
            "{d} {month} {y} tarihinde ne oldu?",
            "{iso}",
            "{d} {month} günü ne karar verildi?",
        ),
        "dün ne yaptık?",
        "evvelsi günün notları",
        "geçen {weekday} ne oldu?",
        "{month} ayında ne yaptık?",
        (
            "Bodrumu topladık, iki kutu attık.",
            "Matbaayla kâğıt üzerine uzun görüşme.",
            "Emre kulübenin kapısını onardı.",
            "Ekip ikinci taslaktan vazgeçti.",
            "Öğlen mercimek, sonra sahilde yürüyüş.",
            "Üç aylık faturalar dosyalandı.",
            "Yük bisikletine yeni fren.",
            "Sözleşme okundu, iki soru açık.",
        ),
    ),
    "ru": Diary(
        _names("января февраля марта апреля мая июня июля августа сентября октября ноября декабря"),
        (
            "прошлый понедельник",
            "прошлый вторник",
            "прошлую среду",
            "прошлый четверг",
            "прошлую пятницу",
            "прошлую субботу",
            "прошлое воскресенье",
        ),
        (
            "что мы делали {d} {month}?",
            "заметки за {d:02}.{m:02}.{y}",
            "что было {d} {month} {y} года",
            "{iso}",
            "что решили {d} {month}?",
        ),
        "что мы делали вчера?",
        "заметки за позавчера",
        "что было в {weekday}?",
        "что мы делали в {month}?",
        (
            "Разобрали подвал, выбросили две коробки.",
            "Долгий разговор с типографией о бумаге.",
            "Никита починил дверь сарая.",
            "Команда отказалась от второго макета.",
            "На обед суп, потом прогулка у реки.",
            "Разложили счета за квартал.",
            "Новые тормоза на грузовой велосипед.",
            "Прочитали черновик, три вопроса открыты.",
        ),
        _names("январе феврале марте апреле мае июне июле августе сентябре октябре ноябре декабре"),
    ),
    "zh": Diary(
        _NUMBERED,
        _names("周一 周二 周三 周四 周五 周六 周日"),
        (
            "{m}月{d}日我们做了什么",
            "{y}年{m}月{d}日的记录",
            "{m}月{d}号发生了什么事",
            "{iso} 的笔记",
            "{m}月{d}日有什么决定？",
        ),
        "昨天我们做了什么",
        "前天的记录",
        "上{weekday}发生了什么",
        "{month}我们做了什么",
        (
            "收拾了地下室，扔掉两个箱子。",
            "跟印刷厂谈了很久纸张的问题。",
            "小周修好了棚子的门。",
            "团队放弃了第二个样稿。",
            "中午喝汤，饭后沿河散步。",
            "整理了本季度的发票。",
            "给货运自行车换了新刹车。",
            "读完合同草稿，还有三个疑问。",
        ),
    ),
    "ja": Diary(
        _NUMBERED,
        _names("月曜日 火曜日 水曜日 木曜日 金曜日 土曜日 日曜日"),
        (
            "{m}月{d}日に何をした？",
            "{y}年{m}月{d}日の記録",
            "{m}月{d}日に何が決まった？",
            "{y}/{m:02}/{d:02} のメモ",
            "{m}月{d}日の出来事",
        ),
        "昨日は何をした？",
        "一昨日のメモ",
        "先週の{weekday}に何があった？",
        "{month}に何をした？",
        (
            "地下室を片付けて、箱を二つ捨てた。",
            "印刷所と紙の件で長い電話。",
            "健太が物置の戸を直した。",
            "二つ目の試作はやめることにした。",
            "昼はみそ汁、そのあと川沿いを散歩。",
            "四半期の請求書を整理した。",
            "荷物用の自転車に新しいブレーキ。",
            "契約の下書きを読んだ。疑問が三つ残る。",
        ),
    ),
    "ko": Diary(
        tuple(f"{month}월" for month in range(1, 13)),
        _names("월요일 화요일 수요일 목요일 금요일 토요일 일요일"),
        (
            "{m}월 {d}일에 뭐 했지?",
            "{y}년 {m}월 {d}일 기록",
            "{m}월 {d}일에 무슨 일이 있었어?",
            "{iso} 메모",
            "{m}월 {d}일에 뭘 결정했어?",
        ),
        "어제 뭐 했지?",
        "그저께 기록",
        "지난주 {weekday}에 무슨 일이 있었어?",
        "{month}에 뭐 했지?",
        (
            "지하실을 정리하고 상자 두 개를 버렸다.",
            "인쇄소와 종이 문제로 오래 통화했다.",
            "준호가 창고 문을 고쳤다.",
            "팀은 두 번째 시안을 버리기로 했다.",
            "점심은 국, 그다음 강가 산책.",
            "분기 청구서를 정리했다.",
            "짐자전거에 새 브레이크를 달았다.",
            "계약 초안을 읽었고 질문이 셋 남았다.",
        ),
    ),
}
