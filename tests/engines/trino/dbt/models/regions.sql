select region, count(*) as orders, sum(amount) as amount from {{ ref('orders') }} group by region
