{{ config(materialized='incremental', incremental_strategy='merge', unique_key='id') }}
select id, region, {{ var('run') }} as run from {{ ref('orders') }} where id >= {{ var('run') }}
