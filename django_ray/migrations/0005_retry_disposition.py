from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('django_ray', '0004_lease_cluster'),
    ]

    operations = [
        migrations.AddField(
            model_name='taskattempt',
            name='retry_disposition',
            field=models.CharField(blank=True, default='', db_default='', max_length=40),
        ),
        migrations.AddConstraint(
            model_name='taskattempt',
            constraint=models.CheckConstraint(condition=models.Q(('retry_disposition__in', ['', 'AUTOMATIC_ALLOWED', 'APPLICATION_POLICY_REQUIRED', 'OPERATOR_RECONCILIATION_REQUIRED', 'PROHIBITED'])), name='django_ray_attempt_disposition'),
        ),
    ]
