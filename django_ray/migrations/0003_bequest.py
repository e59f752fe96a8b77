from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('django_ray', '0002_cleanup'),
    ]

    operations = [
        migrations.AddField(
            model_name='workflowrun',
            name='bequest',
            field=models.BinaryField(null=True),
        ),
        migrations.AddConstraint(
            model_name='workflowrun',
            constraint=models.CheckConstraint(condition=models.Q(('bequest__isnull', True), ('bequest__octets__lte', 32768), _connector='OR'), name='django_ray_run_bequest_size'),
        ),
    ]
