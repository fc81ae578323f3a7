"""The bundled recipe: full fine-tuning of a Hugging Face causal LM, with exact resume."""
