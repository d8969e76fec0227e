"""Makes what lies beside it, `make maps`, from our own sentences and the weights that `make model` fetches.

sentences.csv            every sentence, with the pronoun, its antecedent and the other candidate where there are any
maps.safetensors         all 72 heads' weights on the ten plain sentences, and the lengths of what each token hands on,
                         float16; their tokens are in its metadata
strengths.safetensors    every kind's strength (`mha.heads`) for all heads, on these ten and twenty more ("first") and
                         on thirty-six of another make ("second"); strength by mark; the share of [CLS] and [SEP]
pairs.safetensors        weights from a pronoun to its two candidates, and from a determiner to what follows, all heads
"""

import csv
import json
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from mha import english, heads

HERE = Path(__file__).resolve().parent

PLAIN = (
    "Maya fed her cat, twice, because the cat was hungry.",
    "The queen waited for the king, because she was early.",
    "When the rain stopped, the children ran out; the rain soon came back.",
    "My brother sold his old car, but the car broke down again.",
    "If you find the key, put the key on the table.",
    "The doctor called the nurse, and the nurse answered at once.",
    "A dog barked, a second dog answered, and a third one slept.",
    "The teacher read a story; the story was long, but nobody slept.",
    "On Monday the train was late, and on Tuesday the train was full.",
    "He wrote a letter to his mother, and she kept the letter for years.",
)
# Twenty more, of which only the strengths are kept: a verdict needs more sentences than a picture.
MORE = (
    "The old man read his book; then he closed the book, and slept.",
    "In spring the river is high, and in summer the river is low.",
    "We bought bread, cheese, and wine, and we ate the bread first.",
    "A bird sang in the tree, and below the tree a child listened.",
    "The bus was late again, so I took another bus.",
    "My sister paints birds; she has painted birds for years.",
    "Some books are long, some books are short, and this one is neither.",
    "The wind opened the door, and nobody closed the door.",
    "She asked a question, but the question was never answered.",
    "If the soup is cold, heat the soup; if not, eat it.",
    "The farmer sold two horses, bought one horse, and went home.",
    "Snow fell all night, and in the morning the snow was deep.",
    "The judge heard the witness, but the witness said nothing new.",
    "Where there is smoke, there is fire; here there was only smoke.",
    "He lost his hat, found the hat, and lost it once more.",
    "The moon rose, the stars came out, and then the moon was hidden.",
    "They built a bridge, crossed the bridge, and burned it.",
    "Her letter was short; his letter, which came later, was not.",
    "The boy broke a window, so his father paid for the window.",
    "A good cook tastes the sauce, adds salt, and tastes the sauce again.",
)
# A second set of another make, to see which labels return: short and long, with marks and without, questions, lists.
SECOND = (
    "Nobody came.",
    "Where did you put my glasses?",
    "Stop!",
    "heavy rain expected tomorrow",
    "Is it true, or did somebody make it up?",
    "The committee will publish its report next month",
    "Apples, pears, plums, cherries: everything was sold out by noon.",
    "We left early and still missed the ferry",
    "He plays the violin better than anyone else in town.",
    "Please bring warm clothes, boots, a torch, some water and two days of food",
    "Why do cats purr when they are ill?",
    "Although the bakery near our station opens at six, most people buy their bread later, on the way home from work.",
    "new bridge opened to traffic, old one closed",
    "Can a fish drown?",
    "It took us three hours to climb that hill, and only one to come down again.",
    "Good morning, everybody!",
    "My uncle, who has worked in a hospital all his life, never talks about it",
    "What a day!",
    "She speaks Greek, Turkish and a little Arabic.",
    "Those who arrive late stand; those who arrive early sit.",
    "The price of milk went up while the price of bread went down",
    "Tell me what you want and I will tell you what it costs",
    "Between the two world wars many small factories along this river made paper, glass, and shoes for half of Europe, "
    "yet hardly any trace of them is left.",
    "Did the letter arrive, or is the letter lost?",
    "Nine times out of ten nothing happens.",
    "Water boils faster on a mountain because the air there presses less",
    "no dogs, no bicycles, no music",
    "One child wanted to swim, another wanted to sleep, and the youngest wanted to go home.",
    "If anyone calls while I am away, say that I shall be back on Thursday",
    "Old houses have thick walls.",
    "How many people live in a city depends on where you draw the line around the city.",
    "Not the engine but the brakes failed, according to a first report by two experts from the ministry",
    "Slowly, very slowly, the door opened.",
    "the museum shows coins, maps, masks, tools and letters from four centuries",
    "Would you rather be rich or happy?",
    "After the storm we found branches, tiles, a chair, two hats and half of a fence in our garden, but the old pear "
    "tree, which everybody had feared for, stood as before.",
)
# {a} and {b} take both orders, and the pronoun means each of them: guessing, or always the nearer, is right in half.
FRAMES = (
    "The {a} helped the {b}, because {p} had time.",
    "The {a} passed the {b} in the street, but {p} said nothing.",
    "The {a} smiled at the {b} when {p} opened the door.",
    "The {a} drove behind the {b} until {p} took another road.",
)
# he, she: each with every frame.  A head was first seen to do this on king and queen, boy and girl, man and woman.
PEOPLE = (
    ("uncle", "aunt"),
    ("father", "mother"),
    ("brother", "sister"),
    ("son", "daughter"),
    ("husband", "wife"),
    ("grandfather", "grandmother"),
    ("nephew", "niece"),
    ("actor", "actress"),
    ("waiter", "waitress"),
    ("prince", "princess"),
    ("groom", "bride"),
    ("monk", "nun"),
    ("hero", "heroine"),
    ("duke", "duchess"),
    ("emperor", "empress"),
    ("host", "hostess"),
    ("grandson", "granddaughter"),
    ("baron", "baroness"),
    ("count", "countess"),
    ("priest", "priestess"),
    ("wizard", "witch"),
    ("dad", "mom"),
    ("boyfriend", "girlfriend"),
    ("grandpa", "grandma"),
)
# The same words up to one; which of the two is meant takes understanding.
PAIRS = (
    ("The truck could not pass under the bridge because it was too {}.", "it", ("tall", "truck"), ("low", "bridge")),
    ("The shirt did not fit into the box because it was too {}.", "it", ("big", "shirt"), ("small", "box")),
    ("The knife cut the rope because it was so {}.", "it", ("sharp", "knife"), ("thin", "rope")),
    ("The dog could not catch the cat because it was too {}.", "it", ("slow", "dog"), ("fast", "cat")),
    ("The ball broke the window because it was made of {}.", "it", ("steel", "ball"), ("glass", "window")),
    ("The man could not lift the boy because he was too {}.", "he", ("weak", "man"), ("heavy", "boy")),
    ("The farmer paid the doctor because he had {} the bet.", "he", ("lost", "farmer"), ("won", "doctor")),
    ("The girl did not hear the woman because she was {}.", "she", ("deaf", "girl"), ("whispering", "woman")),
    ("The lamp did not light the hall because it was too {}.", "it", ("weak", "lamp"), ("long", "hall")),
    ("The boat could not enter the channel because it was too {}.", "it", ("deep", "boat"), ("shallow", "channel")),
)
# A determiner with its noun one, two and three places on, equally often: a fixed distance is right in one third.
ADJECTIVES = ("old", "small", "grey", "quiet")
DETERMINERS = {  # a head is chosen on the first, and tested on the second: other frames, other nouns
    "syntax": (
        ("Yesterday the {} was there again.",),
        ("cat", "house", "river", "train", "song", "king", "child", "bridge"),
    ),
    "syntax again": (
        ("We talked about the {} for hours.", "Nobody knew whose it was, but the {} pleased us.", "Is the {} yours?"),
        ("dog", "garden", "car", "picture", "boat", "horse", "book", "lamp"),
    ),
}


def sentences():
    """Rows (kind, text, pronoun, antecedent, other)."""
    sets = {"plain": PLAIN, "more": MORE, "second": SECOND}
    rows = [(kind, text, "", "", "") for kind, texts in sets.items() for text in texts]
    for he, she in PEOPLE:
        for frame in FRAMES:
            for a, b in ((he, she), (she, he)):
                for pronoun, antecedent, other in (("he", he, she), ("she", she, he)):
                    rows.append(("balanced", frame.format(a=a, b=b, p=pronoun), pronoun, antecedent, other))
    for kind, (frames, nouns) in DETERMINERS.items():
        for frame in frames:
            for number, noun in enumerate(nouns):
                for many in range(3):
                    words = [ADJECTIVES[(number + i) % 4] for i in range(many)]
                    rows.append((kind, frame.format(" ".join([*words, noun])), "the", noun, ""))
    for frame, pronoun, one, two in PAIRS:
        for (word, antecedent), (_, other) in ((one, two), (two, one)):
            rows.append(("understanding", frame.format(word), pronoun, antecedent, other))
    return rows


def by_mark(weights, tokens):
    """Strength by what stands there: commas, other marks inside, the last mark, a last word without a mark."""
    T, place = len(tokens), np.arange(len(tokens))
    comma = np.array([token == "," for token in tokens])
    mark = np.array([token in heads.PUNCTUATION for token in tokens])
    last = place == T - 2  # [SEP] stands behind it
    found = []
    for keys in (comma & ~last, mark & ~comma & ~last, mark & last, ~mark & last):
        asked = (place > 0) & (place < T - 1)
        score, null = heads.score(weights, asked[:, None] & keys[None, :] & ~np.eye(T, dtype=bool))
        found.append((score - null) / (1 - null))
    return torch.tensor(np.stack(found))  # (4, 6, 12)


def on_special(table):
    """The share that [CLS] and [SEP] get of the rows of words: weights (6, 12, T, T) → (6, 12)."""
    return table[:, :, 1:-1][..., [0, -1]].sum(dim=-1).mean(dim=-1)


def main():
    folder = english.find_model()
    if folder is None:
        sys.exit("The English model is not here: run `make model` first.")
    encoder, tokenizer = english.load(folder), english.Tokenizer(folder)
    rows = sentences()
    with open(HERE / "sentences.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([("kind", "text", "pronoun", "antecedent", "other"), *rows])
    found = {kind: [] for kind, *_ in rows}  # (…) of every sentence
    maps, lengths, plain_tokens, places, marks, sinks = {}, {}, [], {}, {}, {}
    for kind, text, pronoun, antecedent, other in rows:
        pieces, weights = english.read(encoder, tokenizer, text)
        if kind in ("plain", "more", "second"):
            found[kind].append((pieces, weights))
            group = "second" if kind == "second" else "first"
            marks.setdefault(group, []).append(by_mark(weights, pieces))
            written = english.written(weights, english.value_lengths(encoder, tokenizer, text))
            sinks.setdefault(group, []).append(torch.stack([on_special(weights), on_special(written)]))
        if kind == "plain":
            lengths[f"lengths {len(maps)}"] = english.value_lengths(encoder, tokenizer, text).half()
            maps[str(len(maps))] = weights.half()
            plain_tokens.append(pieces)
        if kind in DETERMINERS:
            at = pieces.index("the")
            found[kind].append(weights[:, :, at, at + 1 : at + 4].half())  # (6, 12, 3): the three tokens that follow
            places.setdefault(kind, []).append(pieces.index(antecedent) - at - 1)
        if kind in ("balanced", "understanding"):
            row = weights[:, :, pieces.index(pronoun)]  # (6, 12, T): all heads, from the pronoun
            found[kind].append(row[..., [pieces.index(antecedent), pieces.index(other)]].half())
    save_file(maps | lengths, HERE / "maps.safetensors", metadata={"tokens": json.dumps(plain_tokens)})
    strengths = {}
    for group, kinds in (("first", ("plain", "more")), ("second", ("second",))):
        read = [sentence for kind in kinds for sentence in found[kind]]
        strengths |= {f"{group} {kind}": torch.tensor(v).half() for kind, v in heads.over_sentences(read).items()}
        strengths[f"{group} by mark"] = torch.stack(marks[group]).half()  # (sentences, 4, 6, 12)
        strengths[f"{group} on special"] = torch.stack(sinks[group]).half()  # (sentences, weight and written, 6, 12)
    save_file(strengths, HERE / "strengths.safetensors")
    pairs = {kind: torch.stack(found[kind]) for kind in ("balanced", "understanding", *DETERMINERS)}
    pairs |= {f"{kind} noun": torch.tensor(place) for kind, place in places.items()}
    save_file(pairs, HERE / "pairs.safetensors")


if __name__ == "__main__":
    main()
