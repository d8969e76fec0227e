"""Makes what lies beside it, `make maps`, from our own sentences and the weights that `make model` fetches.

sentences.csv            every sentence, with the pronoun, its antecedent and the other candidate where there are any
maps.safetensors         all 72 heads' weights on the ten plain sentences, float16; their tokens are in its metadata
strengths.safetensors    every kind's strength (`mha.heads`) for all heads, on these ten and twenty more
pairs.safetensors        weights from a pronoun to its two candidates, and from a determiner to what follows, all heads
"""

import csv
import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))

from mha import english, heads  # noqa: E402

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
# {a} and {b} take both orders, and the pronoun means each of them: guessing, or always the nearer, is right in half.
FRAMES = (
    "The {a} waited for the {b}, because {p} was early.",
    "The {a} thanked the {b}, and then {p} went home.",
    "The {a} met the {b} when {p} was in town.",
    "The {a} laughed at the {b}, but {p} did not mind.",
    "The {a} wrote to the {b} before {p} left.",
    "The {a} saw the {b} while {p} was waiting.",
    "The {a} called the {b} after {p} came back.",
    "The {a} sat beside the {b}, and soon {p} fell asleep.",
)
PEOPLE = (("king", "queen"), ("boy", "girl"), ("man", "woman"))  # he, she; each with every frame
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
NOUNS = ("cat", "house", "river", "train", "song", "king", "child", "bridge")
ADJECTIVES = ("old", "small", "grey", "quiet")


def sentences():
    """Rows (kind, text, pronoun, antecedent, other)."""
    rows = [("plain", text, "", "", "") for text in PLAIN] + [("more", text, "", "", "") for text in MORE]
    for frame in FRAMES:
        for he, she in PEOPLE:
            for a, b in ((he, she), (she, he)):
                for pronoun, antecedent in (("he", he), ("she", she)):
                    other = she if antecedent == he else he
                    rows.append(("balanced", frame.format(a=a, b=b, p=pronoun), pronoun, antecedent, other))
    for number, noun in enumerate(NOUNS):
        for many in range(3):
            words = [ADJECTIVES[(number + i) % 4] for i in range(many)]
            rows.append(("syntax", f"Yesterday the {' '.join([*words, noun])} was there again.", "the", noun, ""))
    for frame, pronoun, one, two in PAIRS:
        for (word, antecedent), (_, other) in ((one, two), (two, one)):
            rows.append(("understanding", frame.format(word), pronoun, antecedent, other))
    return rows


def main():
    folder = english.find_model()
    if folder is None:
        sys.exit("The English model is not here: run `make model` first.")
    encoder, tokenizer = english.load(folder), english.Tokenizer(folder)
    rows = sentences()
    with open(HERE / "sentences.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([("kind", "text", "pronoun", "antecedent", "other"), *rows])
    maps, tokens, plain, pronouns = {}, [], [], {"balanced": [], "understanding": []}
    following, places = [], []
    for kind, text, pronoun, antecedent, other in rows:
        pieces, weights = english.read(encoder, tokenizer, text)
        if kind in ("plain", "more"):
            plain.append((pieces, weights))
        if kind == "plain":
            maps[str(len(maps))] = weights.half()
            tokens.append(pieces)
        if kind == "syntax":
            at = pieces.index("the")
            following.append(weights[:, :, at, at + 1 : at + 4].half())  # (6, 12, 3): the three tokens that follow
            places.append(pieces.index(antecedent) - at - 1)
        if kind in pronouns:
            row = weights[:, :, pieces.index(pronoun)]  # (6, 12, T): all heads, from the pronoun
            pronouns[kind].append(row[..., [pieces.index(antecedent), pieces.index(other)]].half())
    save_file(maps, HERE / "maps.safetensors", metadata={"tokens": json.dumps(tokens)})
    strengths = {kind: torch.tensor(values).half() for kind, values in heads.over_sentences(plain).items()}
    save_file(strengths, HERE / "strengths.safetensors")
    pairs = {kind: torch.stack(found) for kind, found in pronouns.items()}
    pairs |= {"determiner": torch.stack(following), "noun": torch.tensor(places)}
    save_file(pairs, HERE / "pairs.safetensors")


if __name__ == "__main__":
    main()
