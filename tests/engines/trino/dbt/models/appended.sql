{{ config(materialized='incremental', incremental_strategy='append', properties={'partitioning': "ARRAY['region']"}) }}
select id, region, {{ var('run') }} as run from {{ ref('orders') }}
