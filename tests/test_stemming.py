"""Porter's rules, each by words that it does and does not apply to."""

from __future__ import annotations

import pytest

from runoff.stemming import stem

STEMS = {
    # plurals
    "losses": "loss", "policies": "polici", "ties": "ti", "press": "press", "banks": "bank", "gas": "ga",
    # past tense and gerund
    "agreed": "agre", "feed": "feed", "paid": "paid", "funded": "fund", "bled": "bled", "lending": "lend",
    "sing": "sing", "rated": "rate", "troubled": "troubl", "sized": "size", "hopping": "hop", "selling": "sell",
    "passing": "pass", "buzzing": "buzz", "filing": "file", "failing": "fail", "boxed": "box",
    # y behind a vowel of the stem
    "happy": "happi", "sky": "sky", "pay": "pai", "syzygy": "syzygi",
    # suffixes of words that were made of others
    "relational": "relat", "conditional": "condit", "rational": "ration", "valency": "valenc", "digitizer": "digit",
    "conformably": "conform", "radically": "radic", "differently": "differ", "vilely": "vile", "analogously": "analog",
    "vietnamization": "vietnam", "predication": "predic", "operator": "oper", "feudalism": "feudal",
    "decisiveness": "decis", "hopefulness": "hope", "callousness": "callous", "formality": "formal",
    "sensitivity": "sensit", "sensibility": "sensibl", "triplicate": "triplic", "formative": "form",
    "formalize": "formal", "electricity": "electr", "electrical": "electr", "hopeful": "hope", "goodness": "good",
    # the last suffix, off long stems only
    "revival": "reviv", "allowance": "allow", "inference": "infer", "airliner": "airlin", "adjustable": "adjust",
    "defensible": "defens", "irritant": "irrit", "replacement": "replac", "adjustment": "adjust",
    "dependent": "depend", "adoption": "adopt", "onion": "onion", "communism": "commun", "activate": "activ",
    "homologous": "homolog", "effective": "effect", "bowdlerize": "bowdler", "cement": "cement",
    # a last e, a doubled l
    "probate": "probat", "rate": "rate", "cease": "ceas", "controlling": "control", "roll": "roll",
}  # fmt: skip


@pytest.mark.parametrize("word", STEMS)
def test_stems(word: str) -> None:
    assert stem(word) == STEMS[word]


@pytest.mark.parametrize("word", ["", "s", "is", "401", "v1.5", "2nds", "東京", "überweisungen", "हिन्दी"])
def test_what_is_no_english_word_stays(word: str) -> None:
    assert stem(word) == word
