{{ config(materialized='incremental', incremental_strategy='delete+insert', unique_key='id', on_schema_change='append_new_columns') }}
select id, {{ var('run') }} as run {% if var('run') > 1 %}, amount {% endif %} from {{ ref('orders') }} where id >= {{ var('run') }}
