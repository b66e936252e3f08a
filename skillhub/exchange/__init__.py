"""Import of locks, adoption of skills, bundles, bills of materials, stored values, uninstall."""
