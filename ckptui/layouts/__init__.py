"""One small module a trainer: recognise its folders and describe them."""
