"""The set `unspaced`: numbers and names among function words, in Chinese and Japanese.

Each series has notes of one form that differ by a number or a name. Questions name one of them, as
people ask: most of their characters are function words, which other notes have more of.
"""

import random
from dataclasses import dataclass

from bench.quality.made.model import Made
from bench.quality.model import Question

_NOTES_PER_SERIES = 40
_ASKED = 20
_OTHERS_A_NOTE = 4
_FIRST_NUMBERS = range(110, 900)


@dataclass(frozen=True, slots=True)
class _Series:
    """Notes and questions of one form; `{x}` stands for the number or the name."""

    note: str
    questions: tuple[str, str]
    names: tuple[str, ...] = ()


_PEOPLE = {
    "zh": "Fernanda Ravi Greta Anselmo Ilse Bram Teo Dolores Minseo Otto Leonor Marta Caetano Yusuf"
    " Ingrid Paolo Niamh Oskar Selma Tomasz",
    "ja": "Anouk Birgit Casper Dragan Elena Farid Gisela Henrik Imani Jasper Katrin Lorenzo Maeve"
    " Nikolai Odile Priya Quentin Rosalind Stefan Thandi",
}
_TOOLS = {
    "zh": "nginx Redis Kafka Grafana Postgres Terraform Ansible Celery Docker Vault Consul Jenkins"
    " MinIO Envoy Loki Airflow Superset Keycloak Traefik Harbor",
    "ja": "Nomad Sentry Tempo Rundeck Gitea Drone Memcached Varnish Caddy Zookeeper Prometheus"
    " RabbitMQ Nextcloud Logstash Puppet Bazel Squid Bind Dovecot Postfix",
}
_SERIES = {
    "zh": (
        _Series(
            "## 第 {x} 次训练 - 记录",
            ("第{x}次训练的主题是什么", "第{x}次训练我们都练了些什么？"),
        ),
        _Series("## 会议 {x}", ("会议{x}的结论是什么", "请问会议{x}最后是怎么决定的？")),
        _Series("订单 {x} 已经签收。", ("订单{x}的货是什么时候到的", "我的订单{x}现在到哪里了？")),
        _Series(
            "{x}：555-01{n}，下午打。",
            ("{x}的电话号码是多少", "我要怎么样才能联系到{x}呢"),
            tuple(_PEOPLE["zh"].split()),
        ),
        _Series(
            "{x} 装在第{n}号机器上。",
            ("{x}的配置文件在什么地方", "我们的{x}是装在哪里的？"),
            tuple(_TOOLS["zh"].split()),
        ),
    ),
    "ja": (
        _Series(
            "## 第 {x} 回 練習 - 記録",
            ("第{x}回の練習の主題は何ですか", "第{x}回の練習では何をしましたか"),
        ),
        _Series("## 会議 {x}", ("会議{x}の結論は何でしたか", "会議{x}ではどう決まったのですか")),
        _Series(
            "注文 {x} 受け取り済み。",
            ("注文{x}の品物はいつ届きましたか", "注文{x}は今どこにありますか"),
        ),
        _Series(
            "{x}：555-01{n}、午後に。",
            ("{x}さんの電話番号を教えてください", "{x}さんにはどうやって連絡すればいいですか"),
            tuple(_PEOPLE["ja"].split()),
        ),
        _Series(
            "{x} 導入先：{n}号機。",
            ("{x}の設定ファイルはどこにありますか", "{x}はどこに入れてあるんでしたっけ"),
            tuple(_TOOLS["ja"].split()),
        ),
    ),
}
_OTHERS = {
    "zh": (
        "大家的意见是什么，下次再说。",
        "问题是什么时候能做完。",
        "我们的计划是怎么来的，他不知道。",
        "这是谁的东西，请拿走。",
        "今天的主要内容是准备器材。",
        "不知道是什么原因，天气变冷了。",
        "他说的地方在哪里，我们没找到。",
        "要多少钱还不清楚，先问问看。",
        "下雨的时候是在室内做的。",
        "最后的决定是大家一起做的。",
        "请问的人很多，回答的人很少。",
        "现在的做法是先休息再继续。",
        "这样才能让大家都到齐。",
        "什么都可以，只要准时。",
        "他的电话总是打不通。",
        "文件在桌子上的那个盒子里。",
    ),
    "ja": (
        "みんなの意見は何だったか、また今度。",
        "いつ終わるのかが問題です。",
        "どうやって決めたのかは知りません。",
        "これは誰のものですか、片付けてください。",
        "今日の主な内容は道具の準備でした。",
        "何が原因なのかは分かりません。",
        "言われた場所がどこにあるのか分からなかった。",
        "いくらかかるのかまだ分かりません。",
        "雨のときは室内でしました。",
        "最後はみんなで決めました。",
        "聞いてくる人が多くて、答える人が少ない。",
        "今のやり方では、まず休んでから続けます。",
        "それではどうすればいいですかと聞かれた。",
        "何でもいいので、時間どおりにしてください。",
        "電話をしても、なかなか出てくれません。",
        "書類は机の上の箱に入れてあります。",
    ),
}
"""Lines that stand in many notes, with the words that questions are made of."""


def make() -> Made:
    """Return the set. Numbers follow each other, as those of meetings do."""
    notes: dict[str, str] = {}
    questions: list[Question] = []
    for language, series in _SERIES.items():
        for number, one in enumerate(series):
            chance = random.Random(f"{language}{number}")
            first = chance.choice(_FIRST_NUMBERS)
            names = one.names or [str(first + at) for at in range(_NOTES_PER_SERIES)]
            paths = {}
            for at, name in enumerate(names):
                # The name of the file must not give it away.
                paths[name] = f"memory/{language}/{'abcde'[number]}{at}.md"
                others = chance.sample(_OTHERS[language], _OTHERS_A_NOTE)
                head = one.note.format(x=name, n=chance.randrange(10, 99))
                notes[paths[name]] = "\n".join([head, "", *others]) + "\n"
            for at, name in enumerate(chance.sample(list(names), _ASKED)):
                text = one.questions[at // 2 % len(one.questions)].format(x=name)
                questions.append(Question(text, kind=language, notes=frozenset([paths[name]])))
    return Made(notes, questions)
