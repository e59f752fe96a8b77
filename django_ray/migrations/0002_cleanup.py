import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('django_ray', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='CleanupFailure',
            fields=[
                ('run', models.OneToOneField(on_delete=django.db.models.deletion.DB_CASCADE, primary_key=True, related_name='cleanup_failure', serialize=False, to='django_ray.workflowrun')),
                ('kind', models.CharField(max_length=32)),
                ('failures', models.IntegerField()),
                ('failed_at', models.DateTimeField()),
                ('diagnostic', models.CharField(max_length=200)),
            ],
            options={
                'db_table': 'django_ray_cleanup_failure',
            },
        ),
        migrations.AddConstraint(
            model_name='cleanupfailure',
            constraint=models.CheckConstraint(condition=models.Q(('failures__gte', 1)), name='django_ray_cleanup_failure_count'),
        ),
    ]
