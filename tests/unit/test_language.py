"""Languages of texts and questions, and their function words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.text.fold import fold
from memoryd.text.language import function_words, language_of
from memoryd.text.tokenize import query_terms

SENTENCES = {
    "en": "The boiler in the pantry lost pressure again, so we called the plumber who came on",
    "de": "Die Heizung in der Speisekammer hat wieder Druck verloren, deshalb haben wir den",
    "fr": "La chaudière du cellier a encore perdu de la pression, nous avons donc appelé le",
    "es": "La caldera de la despensa volvió a perder presión, así que llamamos al fontanero",
    "pt": "A caldeira da despensa perdeu pressão outra vez, por isso chamámos o canalizador",
    "it": "La caldaia della dispensa ha perso di nuovo pressione, quindi abbiamo chiamato",
    "ca": "La caldera del rebost ha tornat a perdre pressió, així que hem trucat al lampista",
    "ro": "Centrala din cămară a pierdut din nou presiune, așa că am chemat instalatorul, care",
    "nl": "De ketel in de voorraadkast verloor weer druk, dus belden we de loodgieter die",
    "sv": "Pannan tappade tryck igen, så vi ringde rörmokaren, och han är här nu med en ventil.",
    "da": "Kedlen i spisekammeret mistede trykket igen, så vi ringede til blikkenslageren, som",
    "nb": "Kjelen i spiskammeret mistet trykket igjen, så vi ringte rørleggeren, som kom på",
    "fi": "Ruokakomeron kattila menetti taas painetta, joten soitimme putkimiehelle, joka tuli",
    "pl": "Kocioł w spiżarni znowu stracił ciśnienie, więc wezwaliśmy hydraulika, który",
    "cs": "Kotel ve spíži zase ztratil tlak, a tak jsme zavolali instalatéra, který přišel v",
    "sk": "Kotol v špajzi opäť stratil tlak, a tak sme zavolali inštalatéra, ktorý prišiel v",
    "hu": "A kamrában lévő kazán megint nyomást vesztett, ezért kihívtuk a szerelőt, aki kedden",
    "tr": "Kilerdeki kombi yine basınç kaybetti, bu yüzden tesisatçıyı çağırdık, salı günü",
    "el": "Ο λέβητας στην αποθήκη έχασε πάλι πίεση, οπότε καλέσαμε τον υδραυλικό.",
    "ru": "Котёл в кладовой снова потерял давление, поэтому мы вызвали сантехника, который",
    "uk": "Котел у коморі знову втратив тиск, тому ми викликали сантехніка, який прийшов у",
    "bg": "Котелът в килера отново загуби налягане, затова извикахме водопроводчика, който",
    "sr": "Бојлер у остави је поново изгубио притисак, па смо позвали водоинсталатера који је",
    "hr": "Bojler u ostavi je opet izgubio tlak pa smo pozvali vodoinstalatera koji je došao u",
    "sl": "Bojler v shrambi je spet izgubil tlak, zato smo poklicali vodovodarja, ki je prišel",
    "ar": "فقدت الغلاية في المخزن الضغط مرة أخرى، لذلك اتصلنا بالسباك الذي جاء يوم الثلاثاء.",
    "fa": "دیگ بخار انباری دوباره فشار خود را از دست داد، پس به لوله\u200cکش زنگ زدیم که",
    "ur": "پینٹری میں بوائلر کا دباؤ پھر کم ہو گیا اس لیے ہم نے پلمبر کو بلایا جو منگل کو آیا۔",
    "he": "הדוד במזווה שוב איבד לחץ, אז קראנו לשרברב שהגיע ביום שלישי.",
    "hi": "पेंट्री में बॉयलर का दबाव फिर से कम हो गया, इसलिए हमने प्लंबर को बुलाया।",
    "id": "Ketel di dapur kehilangan tekanan lagi, jadi kami memanggil tukang ledeng yang",
    "vi": "Nồi hơi trong phòng chứa lại mất áp suất nên chúng tôi gọi thợ sửa ống nước đến vào",
    "th": "ฉันจะยกเลิกการสมัครได้อย่างไร",
    "zh": "储藏室的锅炉又没压力了，所以我们叫了水管工。",
    "ja": "食品庫のボイラーの圧力がまた下がったので、配管工を呼びました。",
    "ko": "식료품 저장실의 보일러 압력이 또 떨어져서 화요일에 배관공을 불렀습니다.",
    "et": "Kuidas ma saan oma tellimuse tühistada?",
    "lv": "Kā es varu atcelt savu abonementu?",
    "lt": "Kaip galiu atšaukti savo prenumeratą?",
    "is": "Hvernig get ég sagt upp áskriftinni minni?",
}


@pytest.mark.parametrize(("language", "sentence"), SENTENCES.items())
def test_a_sentence_tells_its_language(language: str, sentence: str) -> None:
    assert language_of(sentence) == language


@pytest.mark.parametrize(
    "text",
    [
        *("", "Ravi birthday", "Skoda", "F28", "QF4M7T warranty", "Fernanda phone number"),
        *("kubectl get pods", "obsidian uri open vault", "362acf8", "Paris", "дача", "🎉"),
    ],
)
def test_a_few_names_have_no_language(text: str) -> None:
    assert language_of(text) == ""


def test_a_name_in_another_script_changes_no_language() -> None:
    assert language_of("The restaurant 海底捞 is where we had dinner after the show.") == "en"
    assert language_of("昨天我们在 Kubernetes 上部署了新的服务。") == "zh"


@pytest.mark.parametrize(
    ("question", "content"),
    [
        ("hvornår skal jeg til tandlægen", ["tandlaegen"]),
        ("hvad er vores wifi-kode", ["wifi", "kode"]),
        ("¿Cómo y cuándo puedo cancelar la suscripción?", ["cancelar", "suscripcion"]),
        ("como y cuando puedo cancelar la suscripcion", ["cancelar", "suscripcion"]),
        ("¿Dónde está el coche?", ["coche"]),
        ("dov'è la chiave di riserva?", ["chiave", "riserva"]),
        ("var är min nyckel", ["nyckel"]),
        ("toplantı ne zaman ve nerede", ["toplanti"]),
        ("πότε είναι το ραντεβού με τον οδοντίατρο", ["ραντεβου", "οδοντιατρο"]),
        ("когда мне идти к врачу?", ["идти", "врачу"]),
        ("коли мені треба до лікаря", ["лікаря"]),
        ("מתי הפגישה שלי עם הרופא", ["הפגישה", "הרופא"]),
        ("متى موعدي مع الطبيب وأين", ["موعدي", "الطبيب", "واين"]),
        ("quan he de pagar el lloguer", ["pagar", "lloguer"]),
        ("kdy mám schůzku s právníkem", ["schuzku", "pravnikem"]),
        ("când trebuie să plătesc chiria", ["platesc", "chiria"]),
        ("kapan saya harus bayar sewa", ["bayar", "sewa"]),
        ("मुझे किराया कब देना है", ["किराया", "देना"]),
        ("کی باید اجاره را بدهم", ["اجاره", "بدهم"]),
        ("khi nào tôi phải trả tiền thuê", ["tra", "tien", "thue"]),
        ("quand dois-je payer le loyer", ["payer", "loyer"]),
        ("wann muss ich die Miete zahlen", ["miete", "zahlen"]),
    ],
)
def test_a_question_is_asked_without_its_function_words(question: str, content: list[str]) -> None:
    assert [term.text for term in query_terms(question)] == content


@pytest.mark.parametrize(
    "language", [code for code in SENTENCES if code not in ("zh", "ja", "ko", "th")]
)
def test_each_language_has_a_complete_list(language: str) -> None:
    assert len(function_words(language)) >= 55


@pytest.mark.parametrize(
    ("language", "word"),
    [
        *(("en", "work"), ("de", "Arbeit"), ("de", "zwei"), ("es", "trabajo"), ("es", "tres")),
        *(("fr", "temps"), ("it", "lavoro"), ("pt", "ano"), ("ru", "год"), ("ru", "пять")),
        *(("tr", "bin"), ("fa", "کار"), ("ar", "اليوم"), ("id", "rumah"), ("vi", "nhà")),
    ],
)
def test_content_words_are_no_function_words(language: str, word: str) -> None:
    assert fold(word) not in function_words(language)


@given(st.text())
def test_any_text_has_a_known_language_or_none(text: str) -> None:
    assert language_of(text) in ("", "zh", "ja", "ko", "th", "hy", "ka") or function_words(
        language_of(text)
    )
