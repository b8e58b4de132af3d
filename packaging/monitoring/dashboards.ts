/** The panels of the Grafana dashboards. `grafana.ts` turns them into JSON. */
export interface Panel {
  title: string;
  /** `stat` shows the current number, `graph` its course. */
  kind: 'stat' | 'graph';
  unit: 'short' | 's' | 'bytes' | 'Bps' | 'ops' | 'percentunit';
  /** Maps each legend, in the notation of Grafana, to its expression. */
  series: Record<string, string>;
  /** Explains the panel to a person on call. */
  says?: string;
  /** A stat turns red from this value on. */
  red_from?: number;
  /** A stat is red below this value. */
  red_below?: number;
}

export interface Dashboard {
  title: string;
  says: string;
  rows: { title: string; panels: Panel[] }[];
}

/** Limits a metric of one replica to those that the reader selected. */
const selected = '{instance=~"$instance"}';
const rate = (metric: string, matchers = '') =>
  `rate(${metric}{instance=~"$instance"${matchers && `, ${matchers}`}}[$__rate_interval])`;

type Options = Pick<Panel, 'says' | 'red_from' | 'red_below'>;
const stat = (title: string, expression: string, options: Options & Partial<Pick<Panel, 'unit'>> = {}): Panel => ({
  title,
  kind: 'stat',
  unit: 'short',
  series: { [title]: expression },
  ...options,
});
const graph = (title: string, unit: Panel['unit'], series: Panel['series'], says?: string): Panel => ({
  title,
  kind: 'graph',
  unit,
  series,
  ...(says && { says }),
});

export const dashboards: Record<string, Dashboard> = {
  overview: {
    title: 'Slipway / Overview',
    says: 'Is anything wrong, and how large is the fleet?',
    rows: [
      {
        title: 'Now',
        panels: [
          stat('Replicas that answer', 'sum(up{job="slipway"})', { red_below: 1 }),
          stat('Firing alerts', 'count(ALERTS{alertname=~"Slipway.+", alertstate="firing"}) or vector(0)', {
            red_from: 1,
          }),
          stat('Ready machines', 'max(slipway_nodes{status="ready"})'),
          stat('Open holds of the brake', 'sum(max by (rule) (slipway_brake_holds)) or vector(0)', { red_from: 1 }),
          stat('Failed releases', 'sum(max by (pool) (slipway_parked_allocations)) or vector(0)', { red_from: 1 }),
          stat('Open findings', 'sum(max by (kind) (slipway_findings))', { red_from: 1 }),
        ],
      },
      {
        title: 'Fleet',
        panels: [
          graph('Capacity of pools', 'short', {
            '{{pool}} {{state}}': 'max by (pool, state) (slipway_pool_nodes)',
            '{{pool}} at most': 'max by (pool) (slipway_pool_max_nodes)',
          }),
          graph('Duration of operations, 90th percentile', 's', {
            '{{kind}}': `histogram_quantile(0.9, sum by (le, kind) (${rate('slipway_operation_seconds_bucket')}))`,
          }),
          graph('Machines by status', 'short', { '{{status}}': 'max by (status) (slipway_nodes{status!="retired"})' }),
          graph('Allocations by status', 'short', {
            '{{status}}': 'max by (status) (slipway_allocations{status!="released"})',
          }),
          graph('Unfinished operations', 'short', {
            '{{status}}': 'max by (status) (slipway_operations{status=~"queued|running|cancelling"})',
          }),
          graph('Operations that failed', 'short', {
            'last hour': 'clamp_min(max(delta(slipway_operations{status="failed"}[1h])), 0)',
          }),
        ],
      },
      {
        title: 'Server',
        panels: [
          graph('Heartbeats a second', 'ops', { '{{instance}}': rate('slipway_beats_total') }),
          graph('Deferred requests', 'ops', { '{{instance}} {{what}}': rate('slipway_shed_total') }),
          graph('CPU', 'percentunit', { '{{instance}}': rate('process_cpu_seconds_total', 'job="slipway"') }),
          graph('Time since the start', 's', {
            '{{instance}}': 'time() - process_start_time_seconds{job="slipway", instance=~"$instance"}',
          }),
          graph(
            'Replicas and relays by version',
            'short',
            {
              'replica {{version}}': 'count by (version) (slipway_build_info)',
              'relay {{version}}': 'count by (version) (slipway_relay_build_info)',
            },
            'More than one version means that an upgrade is not finished.',
          ),
        ],
      },
    ],
  },
  supervision: {
    title: 'Slipway / Supervision',
    says: 'Are machines judged in time, and is anything stuck?',
    rows: [
      {
        title: 'Sweeps',
        panels: [
          stat('Failing sweeps', 'sum(max by (sweep) (slipway_sweep_failing))', { red_from: 1 }),
          stat('Open holds of the brake', 'sum(max by (rule) (slipway_brake_holds)) or vector(0)', { red_from: 1 }),
          graph(
            'Lateness of the last verdicts',
            's',
            { '{{sweep}}': 'max by (sweep) (slipway_sweep_lateness_seconds) > 0' },
            'The value stays until the next verdict of the sweep.',
          ),
          graph('Verdicts', 'ops', {
            '{{sweep}}': 'sum by (sweep) (rate(slipway_sweep_decided_total[$__rate_interval])) > 0',
          }),
          graph('Verdicts held back', 'ops', {
            '{{sweep}}': 'sum by (sweep) (rate(slipway_sweep_held_total[$__rate_interval])) > 0',
          }),
          graph('Verdicts of observe-only pools', 'ops', {
            '{{sweep}}': 'sum by (sweep) (rate(slipway_sweep_would_have_total[$__rate_interval])) > 0',
          }),
          graph('Runs of the sweeps', 'ops', { '{{sweep}}': `sum by (sweep) (${rate('slipway_sweep_runs_total')})` }),
          graph('Duration of the last run', 's', {
            '{{sweep}}': `max by (sweep) (slipway_sweep_last_seconds${selected})`,
          }),
        ],
      },
      {
        title: 'Held and stuck',
        panels: [
          graph('Machines with a held verdict', 'short', {
            '{{rule}} {{kind}}': 'max by (rule, kind) (slipway_nodes_held)',
          }),
          graph('Fenced machines', 'short', { '{{pool}} {{status}}': 'max by (pool, status) (slipway_fenced_nodes)' }),
          graph('Oldest fenced machine', 's', {
            '{{pool}} {{status}}': 'max by (pool, status) (slipway_fenced_oldest_seconds)',
          }),
          graph('Failed releases', 'short', { '{{pool}}': 'max by (pool) (slipway_parked_allocations)' }),
          graph('Oldest failed release', 's', { '{{pool}}': 'max by (pool) (slipway_parked_oldest_seconds)' }),
        ],
      },
      {
        title: 'Disagreement',
        panels: [
          graph('Open findings', 'short', { '{{kind}}': 'max by (kind) (slipway_findings)' }),
          graph('Open residue', 'short', { '{{driver}}': 'max by (driver) (slipway_residue_open)' }),
          graph('Oldest residue', 's', { '{{driver}}': 'max by (driver) (slipway_residue_oldest_seconds)' }),
        ],
      },
    ],
  },
  scale: {
    title: 'Slipway / Scale',
    says: 'How much load arrives, and what gives way under it?',
    rows: [
      {
        title: 'Load of each replica',
        panels: [
          graph('Heartbeats a second', 'ops', { '{{instance}}': `slipway_beats_per_second${selected}` }),
          graph('Calls a second', 'ops', {
            '{{instance}}': `sum by (instance) (${rate('slipway_http_request_seconds_count')})`,
          }),
          graph('Slowest calls, 99th percentile', 's', {
            '{{route}}': `topk(8, histogram_quantile(0.99, sum by (le, route) (${rate('slipway_http_request_seconds_bucket')})))`,
          }),
          graph('Timers late', 's', { '{{instance}}': `slipway_loop_lag_seconds${selected}` }),
          graph('Heartbeats wait to be stored', 's', { '{{instance}}': `slipway_beats_behind_seconds${selected}` }),
          graph('Deferred requests', 'ops', { '{{instance}} {{what}}': rate('slipway_shed_total') }),
          graph('Stretch of the intervals', 'short', { '{{instance}}': `slipway_interval_stretch${selected}` }),
          graph('CPU', 'percentunit', { '{{instance}}': rate('process_cpu_seconds_total', 'job="slipway"') }),
          graph('Memory', 'bytes', {
            '{{instance}}': 'process_resident_memory_bytes{job="slipway", instance=~"$instance"}',
          }),
          graph('File descriptors in use', 'percentunit', {
            '{{instance}}':
              'process_open_fds{job="slipway", instance=~"$instance"} / process_max_fds{job="slipway", instance=~"$instance"}',
          }),
        ],
      },
      {
        title: 'Connections and limits',
        panels: [
          graph('Open connections', 'short', { '{{instance}}': `slipway_connections${selected}` }),
          graph('Connections closed by limits', 'ops', {
            '{{instance}} {{reason}}': rate('slipway_connections_closed_total'),
          }),
          graph('Streams of agents and relays', 'short', { '{{instance}} {{of}}': `slipway_agent_streams${selected}` }),
          graph('Limited writes', 'ops', { '{{of}} {{what}}': `sum by (of, what) (${rate('slipway_limited_total')})` }),
          graph('Callers with a write allowance', 'short', { '{{instance}}': `slipway_limit_accounts${selected}` }),
        ],
      },
      {
        title: 'Readers of the event stream',
        panels: [
          graph('Readers and distinct queries', 'short', {
            '{{instance}} readers': `slipway_stream_readers${selected}`,
            '{{instance}} queries': `slipway_stream_questions${selected}`,
          }),
          graph('Facts sent', 'ops', { '{{instance}}': rate('slipway_stream_facts_total') }),
          graph('Batches sent', 'ops', { '{{instance}}': rate('slipway_stream_batches_total') }),
          graph('Bytes sent', 'Bps', { '{{instance}}': rate('slipway_stream_bytes_total') }),
          graph('Readers disconnected because they were slow', 'ops', {
            '{{instance}}': rate('slipway_stream_dropped_total'),
          }),
          graph('Time spent on streaming', 'percentunit', {
            '{{part}}': `sum by (part) (${rate('slipway_stream_seconds_total')})`,
          }),
        ],
      },
      {
        title: 'Relays',
        panels: [
          graph('Heartbeats of agents', 'ops', { '{{instance}}': 'rate(slipway_relay_beats_total[$__rate_interval])' }),
          graph('Merged heartbeats', 'ops', {
            '{{instance}}': 'rate(slipway_relay_beats_joined_total[$__rate_interval])',
          }),
          graph('Batches', 'ops', { '{{instance}}': 'rate(slipway_relay_batches_total[$__rate_interval])' }),
          graph('Undelivered heartbeats', 'ops', {
            '{{instance}}': 'rate(slipway_relay_beats_unheard_total[$__rate_interval])',
          }),
          graph('Heartbeats that wait', 'short', { '{{instance}}': 'slipway_relay_beats_held' }),
          graph('Control plane unreachable for', 's', { '{{instance}}': 'slipway_relay_upstream_away_seconds' }),
          graph('Relays with a stream', 'short', { relays: 'sum(slipway_relay_upstream_streaming)' }),
        ],
      },
    ],
  },
  database: {
    title: 'Slipway / Database',
    says: 'Does the database keep up? Slipway has no metrics of PostgreSQL itself; use an exporter for these.',
    rows: [
      {
        title: 'Signs of a slow or absent database',
        panels: [
          stat('Replicas that can use the database', 'sum(slipway_database_state{state=~"ok|slow"})', {
            red_below: 1,
            says: 'Others cannot connect, or cannot write.',
          }),
          graph(
            'State of the database',
            'short',
            { '{{state}}': 'sum by (state) (slipway_database_state{instance=~"$instance"})' },
            'How many replicas see each state.',
          ),
          graph(
            'Connections to the database',
            'short',
            {
              '{{of}} {{state}}': `sum by (of, state) (slipway_database_connections${selected})`,
              'waiting for one': `sum(slipway_database_waiting${selected})`,
            },
            'If statements wait for a connection for long, raise --database-connections.',
          ),
          graph('Lag of the evidence tail', 's', { '{{instance}}': `slipway_tail_lag_seconds${selected}` }),
          stat('Longest read of the counts', 'max(scrape_duration_seconds{job="slipway"})', { unit: 's', red_from: 2 }),
          graph(
            'Duration of a scrape',
            's',
            { '{{instance}}': 'scrape_duration_seconds{job="slipway", instance=~"$instance"}' },
            'Each scrape reads the counts of the fleet from the database.',
          ),
          graph('Heartbeats wait to be stored', 's', { '{{instance}}': `slipway_beats_behind_seconds${selected}` }),
          graph('Log lines being stored', 'bytes', { '{{instance}}': `slipway_logs_held_bytes${selected}` }),
          graph('Log batches answered with a retry time', 'ops', { '{{instance}}': rate('slipway_logs_slowed_total') }),
        ],
      },
      {
        title: 'Disk',
        panels: [
          graph(
            'Tables by class of retention',
            'bytes',
            { '{{of}}': 'max by (of) (slipway_store_bytes)' },
            'Each class levels off when its retention time has passed once.',
          ),
          graph(
            'Growth for each machine and day',
            'bytes',
            {
              growth:
                'sum(max by (of) (deriv(slipway_store_bytes[1d]))) * 86400 / sum(max by (status) (slipway_nodes{status!="retired"}))',
            },
            'The growth of the last day, divided by the machines that are not retired.',
          ),
          graph('Free disk of the data directory', 'bytes', { '{{instance}}': `slipway_disk_free_bytes${selected}` }),
        ],
      },
      {
        title: 'Work on the database',
        panels: [
          graph('Slowest sweeps', 's', {
            '{{sweep}}': `topk(8, max by (sweep) (slipway_sweep_last_seconds${selected}))`,
          }),
          graph('Background jobs', 's', {
            '{{sweep}}':
              'max by (sweep) (slipway_sweep_last_seconds{sweep=~"housekeeping|row-retention|evidence-seal|counts", instance=~"$instance"})',
          }),
          graph('Failing sweeps', 'short', { '{{sweep}}': `max by (sweep) (slipway_sweep_failing${selected}) > 0` }),
          graph('Heartbeats a second', 'ops', { '{{instance}}': rate('slipway_beats_total') }),
          graph('Reading the evidence', 'percentunit', {
            '{{instance}}': rate('slipway_stream_seconds_total', 'part="tail"'),
          }),
          graph('Forwarded log lines', 'ops', {
            '{{receiver}} accepted': `sum by (receiver) (${rate('slipway_logs_forwarded_lines_total')})`,
            '{{receiver}} dropped': `sum by (receiver) (${rate('slipway_logs_forward_dropped_lines_total')})`,
            '{{receiver}} waiting': `sum by (receiver) (slipway_logs_forward_waiting_lines${selected})`,
          }),
        ],
      },
    ],
  },
};
