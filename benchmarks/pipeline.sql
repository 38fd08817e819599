-- The pipeline's questions in SQL of DuckDB: a table after each line that names one, in order, from `events`.
-- table: control
SELECT day, run, worker, seq, ts, kind, test, vhost, conn, chan, exchange, routing_key, queue, consumer, count, reason, attrs
FROM events WHERE msg IS NULL AND kind IN ('conn_open', 'conn_close', 'chan_open', 'chan_close', 'exchange_declare',
    'exchange_delete', 'queue_declare', 'queue_delete', 'bind', 'unbind', 'consume', 'cancel', 'qos', 'test_start',
    'test_end', 'fault');
-- table: copies
SELECT day, run, worker, test, vhost, queue, msg, copy, max(src_copy) AS src_copy, max(size) AS size,
    min(ts) FILTER (kind = 'enqueued') AS enqueued_at, min(seq) FILTER (kind = 'enqueued') AS enq_seq,
    count(*) FILTER (kind = 'enqueued') AS enqueues,
    min(ts) FILTER (kind IN ('delivered', 'got')) AS first_delivered_at,
    min(seq) FILTER (kind IN ('delivered', 'got')) AS deliver_seq,
    min(seq * 2 + redelivered::INT) FILTER (kind IN ('delivered', 'got')) % 2 = 1 AS first_redelivered,
    count(*) FILTER (kind IN ('delivered', 'got') AND NOT redelivered) AS unflagged,
    max(seq) FILTER (kind IN ('delivered', 'got')) AS last_deliver_seq,
    min(ts) FILTER (kind IN ('acked', 'expired', 'dropped', 'dead_lettered', 'purged')) AS settled_at,
    min(seq) FILTER (kind IN ('acked', 'expired', 'dropped', 'dead_lettered', 'purged')) AS end_seq,
    min(seq) FILTER (kind = 'acked') AS ack_seq, max(seq) FILTER (kind IN ('enqueued', 'requeued')) AS ready_seq,
    max(seq) AS last_seq, count(*) FILTER (kind IN ('delivered', 'got')) AS deliveries,
    count(*) FILTER (kind = 'acked') AS acks, count(*) FILTER (kind = 'nacked') AS nacks,
    count(*) FILTER (kind = 'rejected') AS rejects, count(*) FILTER (kind = 'requeued') AS requeues,
    count(*) FILTER (kind = 'expired') AS expiries, count(*) FILTER (kind = 'dropped') AS drops,
    count(*) FILTER (kind = 'dead_lettered') AS dead_letters, count(*) FILTER (kind = 'purged') AS purges,
    max(CASE WHEN kind = 'dead_lettered' THEN CASE reason WHEN 'rejected' THEN 1 WHEN 'expired' THEN 2
        WHEN 'maxlen' THEN 3 WHEN 'delivery_limit' THEN 4 END END) AS dl_reason
FROM events WHERE copy IS NOT NULL GROUP BY ALL;
-- table: messages
WITH of_copies AS (
    SELECT run, worker, msg, count(*) AS copies, count(src_copy) AS hops, bool_or(end_seq IS NULL) AS is_open,
        arg_max(CASE WHEN acks > 0 THEN 'acked' WHEN dead_letters > 0 THEN 'dead_lettered' WHEN drops > 0 THEN 'dropped'
            WHEN expiries > 0 THEN 'expired' WHEN purges > 0 THEN 'purged' END, end_seq) AS outcome,
        max(settled_at) AS settled_at
    FROM copies GROUP BY run, worker, msg
), told AS (
    SELECT run, worker, msg, bool_or(kind = 'returned') AS returned,
        max(CASE kind WHEN 'confirmed' THEN 1 WHEN 'nacked_confirm' THEN 0 END) AS confirmed
    FROM events WHERE kind IN ('returned', 'confirmed', 'nacked_confirm') GROUP BY run, worker, msg
)
SELECT day, run, worker, test, vhost, msg, seq, ts AS published_at, exchange, routing_key, tag AS publish_number,
    coalesce(copies, 0) AS copies, coalesce(returned, false) AS returned, confirmed, coalesce(hops, 0) AS hops,
    CASE WHEN is_open THEN 'open' ELSE coalesce(outcome, CASE WHEN returned THEN 'returned' ELSE 'dropped' END) END AS outcome,
    CASE WHEN NOT coalesce(is_open, false) THEN settled_at - ts END AS end_to_end_us
FROM events LEFT JOIN of_copies USING (run, worker, msg) LEFT JOIN told USING (run, worker, msg) WHERE kind = 'published';
-- table: tests
WITH ends AS (
    SELECT day, run, worker, test, arg_max(CASE WHEN kind = 'test_end' THEN attrs END, seq) AS attrs,
        count(*) FILTER (kind = 'test_start') AS starts,
        count(*) FILTER (kind = 'test_end' AND attrs->>'outcome' IN ('failed', 'error')) AS failures
    FROM control WHERE kind IN ('test_start', 'test_end') GROUP BY ALL
), published AS (SELECT run, worker, test, count(*) AS published FROM messages GROUP BY ALL)
SELECT day, run, worker, test, attrs->>'outcome' AS outcome, (attrs->>'duration')::DOUBLE AS duration,
    greatest(starts - 1, 0) AS retries, coalesce(published, 0) AS published, failures
FROM ends LEFT JOIN published USING (run, worker, test);
-- table: holds
WITH lives AS (
    SELECT day, run, worker, test, vhost, queue, conn, chan, consumer, msg, copy, seq, kind,
        lead(CASE WHEN kind NOT IN ('delivered', 'got') THEN seq END IGNORE NULLS) OVER life AS until,
        lead(CASE WHEN kind NOT IN ('delivered', 'got') THEN kind END IGNORE NULLS) OVER life AS ended_by,
        row_number() OVER life AS place
    FROM events WHERE copy IS NOT NULL AND kind <> 'enqueued'
    WINDOW life AS (PARTITION BY run, worker, copy ORDER BY seq)
)
SELECT * EXCLUDE kind FROM lives WHERE kind = 'delivered';
-- table: consumers
WITH points AS (
    SELECT run, worker, test, vhost, queue, conn, chan, consumer, seq AS moment, 1 AS delta FROM holds
    UNION ALL SELECT run, worker, test, vhost, queue, conn, chan, consumer, until, -1 FROM holds WHERE until IS NOT NULL
), walked AS (
    SELECT *, sum(delta) OVER (PARTITION BY run, worker, test, vhost, queue, conn, chan, consumer ORDER BY moment
        ROWS UNBOUNDED PRECEDING) AS unacked FROM points
), most AS (
    SELECT run, worker, test, vhost, queue, conn, chan, consumer, max(unacked) AS max_unacked FROM walked GROUP BY ALL
)
SELECT day, run, worker, test, vhost, queue, conn, chan, consumer, count(*) AS deliveries,
    count(*) FILTER (place > 1) AS redeliveries, count(*) FILTER (ended_by = 'acked') AS acked,
    count(*) FILTER (ended_by = 'nacked') AS nacked, count(*) FILTER (ended_by = 'rejected') AS rejected,
    min(seq) AS first_seq, max(seq) AS last_seq, any_value(max_unacked) AS max_unacked
FROM holds LEFT JOIN most USING (run, worker, test, vhost, queue, conn, chan, consumer) GROUP BY ALL;
-- table: routes
SELECT day, run, vhost, kind, exchange, routing_key, queue, count(*) AS n
FROM events WHERE kind IN ('published', 'enqueued', 'dead_lettered') GROUP BY ALL;
-- table: in_order
WITH points AS (
    SELECT run, worker, test, vhost, queue, copy, enq_seq AS moment, 1 AS delta, deliver_seq, ready_seq, last_seq,
        end_seq IS NULL AS is_open FROM copies
    UNION ALL SELECT run, worker, test, vhost, queue, copy, end_seq, -1, NULL, NULL, NULL, false FROM copies
    WHERE end_seq > enq_seq
)
SELECT *, sum(delta) OVER (queue_of_test ROWS UNBOUNDED PRECEDING) AS depth,
    min(deliver_seq) OVER (queue_of_test ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS younger_first,
    max(deliver_seq) OVER (queue_of_test ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS younger_last
FROM points WINDOW queue_of_test AS (PARTITION BY run, worker, test, vhost, queue ORDER BY moment);
-- table: test_queues
WITH depths AS (SELECT run, worker, test, vhost, queue, max(depth) AS max_depth FROM in_order GROUP BY ALL)
SELECT day, run, worker, test, vhost, queue, count(*) AS copies, sum(deliveries) AS deliveries,
    sum(greatest(deliveries - 1, 0)) AS redeliveries, count(*) FILTER (acks > 0) AS acked,
    count(*) FILTER (end_seq IS NULL) AS leaked, count(*) FILTER (dl_reason = 1) AS dead_rejected,
    count(*) FILTER (dl_reason = 2) AS dead_expired, count(*) FILTER (dl_reason = 3) AS dead_maxlen,
    count(*) FILTER (dl_reason = 4) AS dead_delivery_limit, count(*) FILTER (drops > 0) AS dropped,
    any_value(max_depth) AS max_depth
FROM copies LEFT JOIN depths USING (run, worker, test, vhost, queue) GROUP BY ALL;
-- table: latency_hist
SELECT day, run, vhost, queue, measure, CASE WHEN span = 0 THEN 0 ELSE floor(ln(span) / ln(1.02))::INT + 1 END AS bucket,
    count(*) AS n
FROM (
    SELECT day, run, vhost, queue, 'wait' AS measure, first_delivered_at - enqueued_at AS span FROM copies
    UNION ALL SELECT day, run, vhost, queue, 'process', settled_at - first_delivered_at FROM copies
) WHERE span >= 0 GROUP BY ALL;
-- table: queue_stats
WITH histograms AS (
    SELECT day, run, vhost, queue, map_from_entries(list({k: bucket, v: n}) FILTER (measure = 'wait')) AS wait_hist,
        map_from_entries(list({k: bucket, v: n}) FILTER (measure = 'process')) AS process_hist
    FROM latency_hist GROUP BY ALL
)
SELECT day, run, vhost, queue, sum(copies) AS copies, sum(deliveries) AS deliveries, sum(redeliveries) AS redeliveries,
    sum(acked) AS acked, sum(leaked) AS leaked, sum(dead_rejected) AS dead_rejected, sum(dropped) AS dropped,
    max(max_depth) AS max_depth, any_value(wait_hist) AS wait_hist, any_value(process_hist) AS process_hist
FROM test_queues LEFT JOIN histograms USING (day, run, vhost, queue) GROUP BY ALL;
-- table: consumer_stats
SELECT day, run, vhost, queue, consumer, sum(deliveries) AS deliveries, sum(redeliveries) AS redeliveries,
    sum(acked) AS acked, max(max_unacked) AS max_unacked FROM consumers GROUP BY ALL;
-- table: run_lineage
SELECT letters.day, letters.run, letters.test, sources.queue AS from_queue, sources.dl_reason AS reason,
    letters.queue AS to_queue, sum(letters.enqueues) AS n
FROM copies AS letters LEFT JOIN copies AS sources
    ON sources.run = letters.run AND sources.worker = letters.worker AND sources.copy = letters.src_copy
WHERE letters.src_copy IS NOT NULL GROUP BY ALL;
-- table: run_coverage
WITH bindings AS (
    SELECT DISTINCT run, vhost, exchange, queue, routing_key AS binding_key,
        '^' || replace(replace(replace(routing_key, '.', '\.'), '*', '[^.]*'), '\.#', '(\.[^.]*)*') || '$' AS pattern
    FROM control WHERE kind = 'bind'
)
SELECT run, 'queue' AS kind, queue AS name, sum(n) AS messages FROM routes WHERE kind = 'enqueued' GROUP BY ALL
UNION ALL SELECT run, 'exchange', exchange, sum(n) FROM routes WHERE kind <> 'enqueued' GROUP BY ALL
UNION ALL SELECT run, 'binding', exchange || ' -> ' || queue || ' (' || binding_key || ')', sum(n)
FROM routes JOIN bindings USING (run, vhost, exchange, queue)
WHERE kind = 'enqueued' AND (binding_key IN ('#', '') OR regexp_matches(routing_key, pattern)) GROUP BY ALL;
-- table: fingerprints
SELECT run, test, sha256(string_agg(part, chr(10) ORDER BY part)) AS fp, sha256(string_agg(part, chr(10) ORDER BY began, part)) AS order_fp
FROM (
    SELECT run, test, queue || ':' || outcome || ':' || count(*) || ':' || sum(requeues) AS part, min(enq_seq) AS began
    FROM (SELECT *, CASE WHEN acks > 0 THEN 'acked' WHEN dead_letters > 0 THEN 'dead_lettered' WHEN drops > 0 THEN 'dropped'
        WHEN expiries > 0 THEN 'expired' WHEN purges > 0 THEN 'purged' ELSE 'open' END AS outcome FROM copies)
    GROUP BY run, test, queue, outcome
) GROUP BY run, test;
-- table: violations
WITH closed AS (
    SELECT run, worker, conn, chan, seq AS closed_seq, next_seq FROM (
        SELECT *, lead(seq) OVER (PARTITION BY run, worker, conn, chan ORDER BY seq) AS next_seq
        FROM control WHERE kind IN ('chan_open', 'chan_close')) WHERE kind = 'chan_close'
    UNION ALL SELECT run, worker, conn, NULL, seq, NULL FROM control WHERE kind = 'conn_close'
), prefetches AS (
    SELECT run, worker, conn, chan, consumer, max((attrs->>'prefetch_count')::INT) AS prefetch
    FROM control WHERE kind = 'consume' GROUP BY ALL
)
SELECT run, worker, copy, 'acked_twice' AS rule FROM copies WHERE acks > 1
UNION ALL SELECT run, worker, copy, 'delivered_after_ack' FROM copies
WHERE deliver_seq < ack_seq AND last_deliver_seq > ack_seq
UNION ALL SELECT run, worker, copy, 'ack_without_delivery' FROM copies
WHERE acks > 0 AND (deliver_seq IS NULL OR deliver_seq > ack_seq)
UNION ALL SELECT run, worker, copy, 'unacked_at_end' FROM copies WHERE end_seq IS NULL AND last_seq = last_deliver_seq
UNION ALL SELECT run, worker, copy, 'redelivered_flag_wrong' FROM copies
WHERE (first_redelivered AND src_copy IS NULL) OR unflagged > CASE WHEN first_redelivered = false THEN 1 ELSE 0 END
UNION ALL SELECT run, worker, copy, 'lost' FROM in_order
WHERE delta = 1 AND is_open AND last_seq = ready_seq AND younger_last > ready_seq
UNION ALL SELECT run, worker, copy, 'out_of_order' FROM in_order WHERE delta = 1 AND deliver_seq > younger_first
UNION ALL SELECT run, worker, max(copy), 'duplicate_enqueue' FROM copies
GROUP BY run, worker, test, vhost, queue, msg, src_copy HAVING count(*) > 1
UNION ALL SELECT run, worker, msg, 'confirm_missing' FROM messages WHERE publish_number IS NOT NULL AND confirmed IS NULL
UNION ALL SELECT h.run, h.worker, h.copy, 'delivered_to_closed_channel' FROM holds AS h JOIN closed AS c
    ON h.run = c.run AND h.worker = c.worker AND h.conn = c.conn AND (c.chan IS NULL OR h.chan = c.chan)
    AND h.seq > c.closed_seq AND (c.next_seq IS NULL OR h.seq < c.next_seq)
UNION ALL SELECT run, worker, NULL, 'prefetch_exceeded' FROM consumers JOIN prefetches USING (run, worker, conn, chan, consumer)
WHERE prefetch > 0 AND max_unacked > prefetch;
