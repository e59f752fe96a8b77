"""What a template of a project loads: `{% load django_ray %}`."""
