"""The allow-list: which fields, labels and annotations the objects of packages and templates may have."""
