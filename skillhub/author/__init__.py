"""For authors of skills: new, validate, pack, sign."""
