"""Train the demo model's tokenizer: a byte-level BPE in which spaces and digits stand alone.

Why: a name must have the same tokens after a space in the command and after a
quote in the JSON, or the model cannot copy it. So single spaces and single
digits are split off before merging.
Called by the training run, once; writes tokenizer.json and tokenizer_config.json.
"""

import json
import pathlib

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

END, COMMAND, JSON, TEXT, PAD = SPECIALS = ["<|end|>", "<|cmd|>", "<|json|>", "<|text|>", "<|pad|>"]
SPLIT = r"\p{L}+|\p{N}| |[^\s\p{L}\p{N}]+|\s+"
CHAT = f"{COMMAND}{{{{ messages[-1]['content'] }}}}{JSON}"


def train(lines, size):
    """A tokenizer of `size` tokens from an iterable of texts."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(SPLIT), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(lines, trainers.BpeTrainer(
        vocab_size=size, special_tokens=SPECIALS, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return tokenizer


def save(tokenizer, folder):
    """Write the two tokenizer files of the export folder."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"chat_template": CHAT, "eos_token": END}
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n")
