from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('django_ray', '0003_bequest'),
    ]

    operations = [
        migrations.AddField(
            model_name='executionlease',
            name='cluster',
            field=models.CharField(blank=True, default='', db_default='', max_length=128),
        ),
    ]
