"""Small tokenizers and a small SmolVLM on disk, made here: nothing is downloaded.

The two are of the kinds that the real ones are: SmolVLM's works on bytes, PaliGemma's on characters with "▁" for a
space, falls back to bytes, and puts <bos> first.
"""

from __future__ import annotations

from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    PreTrainedTokenizerFast,
    SmolVLMConfig,
    SmolVLMImageProcessor,
    SmolVLMProcessor,
    SmolVLMVideoProcessor,
)

CORPUS = [
    "pick up the red block and place it in the box",
    "Task: open the drawer, State: 0 1 2 3 4 5 6 7 8 9 10 128 255;\nAction: ",
    "push the green cube to the left of the yellow bowl\n",
] * 4
SPECIAL_IMAGE_TOKENS = {
    "fake_image_token": "<fake_token_around_image>",
    "image_token": "<image>",
    "global_image_token": "<global-img>",
    "end_of_utterance_token": "<end_of_utterance>",
    "video_token": "<video>",
}


def smolvlm_tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level BPE; padded with <|im_end|>, as SmolVLM2's is."""
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *SPECIAL_IMAGE_TOKENS.values()]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=320, special_tokens=specials, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<|im_start|>",
        eos_token="<|im_end|>",
        unk_token="<|endoftext|>",
        pad_token="<|im_end|>",
        extra_special_tokens=SPECIAL_IMAGE_TOKENS,
    )


def paligemma_tokenizer() -> PreTrainedTokenizerFast:
    """A character BPE with byte fallback, "▁" for spaces and <bos> first."""
    specials = ["<pad>", "<eos>", "<bos>", "<unk>", *(f"<0x{byte:02X}>" for byte in range(256))]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("[0-9]"), "isolated")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    trainer = trainers.BpeTrainer(vocab_size=380, special_tokens=specials, show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<bos> $A", special_tokens=[("<bos>", tokenizer.token_to_id("<bos>"))]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=AddedToken("<bos>"),
        eos_token="<eos>",
        unk_token="<unk>",
        pad_token="<pad>",
        padding_side="right",
    )


def save_smolvlm(folder: Path) -> None:
    """What AutoConfig and AutoProcessor need to load a SmolVLM of three small layers, without weights."""
    tokenizer = smolvlm_tokenizer()
    text = {
        "model_type": "llama",
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "vocab_size": len(tokenizer),
        "pad_token_id": tokenizer.pad_token_id,
        "rms_norm_eps": 1e-5,
    }
    vision = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "image_size": 64,
        "patch_size": 16,
    }
    config = SmolVLMConfig(
        text_config=text,
        vision_config=vision,
        scale_factor=2,
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        pad_token_id=tokenizer.pad_token_id,
    )
    config.save_pretrained(folder)
    processor = SmolVLMProcessor(SmolVLMImageProcessor(), tokenizer, SmolVLMVideoProcessor(), image_seq_len=4)
    processor.save_pretrained(folder)
