"""Commands for authors of skills: new, validate, pack, sign."""
