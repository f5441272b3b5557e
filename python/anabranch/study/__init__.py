"""The field's experiments as named studies: folders of data in `studies/`, run for every rule."""
