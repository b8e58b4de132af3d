/**
 * Tests the monitoring files: they are up to date, the metric table matches a server and a relay,
 * and alerts and panels use only what is in the table.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { alerts } from '../packaging/monitoring/alerts.ts';
import { dashboards } from '../packaging/monitoring/dashboards.ts';
import {
  fleetMetrics,
  knownMetrics,
  type Metric,
  processMetrics,
  relayMetrics,
  replicaMetrics,
} from '../packaging/monitoring/metrics.ts';
import { histogramOf, unknownNames } from '../packaging/monitoring/promql.ts';
import { runbookAnchor, runbookPage } from '../packaging/monitoring/rules.ts';
import { createMetrics } from '../src/api/metrics.ts';
import { moment, secondsLater, systemClock } from '../src/base/clock.ts';
import { createLatencies } from '../src/base/telemetry/latencies.ts';
import { createLog } from '../src/base/telemetry/log.ts';
import { virtualClock } from '../src/base/virtual-clock.ts';
import { noShortage } from '../src/lifecycle/limits/overload.ts';
import { startRelay } from '../src/relay/relay.ts';
import { declarePool } from '../src/store/rows/pools.ts';
import { placeNodes } from '../src/store/testing/placed-nodes.ts';
import { type TestStore, testStore } from '../test/support/store.ts';
import { fromRoot } from './generate-contract-docs.ts';
import { monitoringFiles } from './generate-monitoring.ts';

const readPage = (path: string) => readFileSync(fromRoot(path), 'utf8');

test.each(Object.keys(monitoringFiles))('%s is up to date (else: bin/run scripts/generate-monitoring.ts)', (path) => {
  expect(readPage(path)).toBe(monitoringFiles[path]?.());
});

describe('the metric table', () => {
  const sample = /^([a-z_]+)(?:\{(.*)\})? \S+$/gm;
  const label = /([a-z_]+)="([^"]*)"/g;

  /** Returns a metric table as the text of a scrape shows it. */
  function tableOf(text: string): Record<string, { type: string; labels: Record<string, string[]> }> {
    const types = new Map([...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name = '', type = '']) => [name, type]));
    const metrics: ReturnType<typeof tableOf> = {};
    for (const [, sampled = '', labels = ''] of text.matchAll(sample)) {
      const name = types.has(sampled) ? sampled : histogramOf(sampled);
      metrics[name] ??= { type: types.get(name) ?? 'none', labels: {} };
      for (const [, key = '', value = ''] of labels.matchAll(label)) {
        if (key === 'le') continue;
        const { labels } = metrics[name];
        labels[key] = [...(labels[key] ?? []), value];
      }
    }
    return metrics;
  }

  const namesAndLabels = (table: Record<string, { type: string; labels: object }>) =>
    Object.fromEntries(
      Object.entries(table).map(([name, { type, labels }]) => [name, [type, ...Object.keys(labels).sort()]]),
    );
  const ownMetrics = (table: ReturnType<typeof tableOf>) =>
    Object.fromEntries(Object.entries(table).filter(([name]) => name.startsWith('slipway_')));

  const clock = virtualClock();
  const now = moment(clock.nowMs());
  let store: TestStore;
  let replicaTable: ReturnType<typeof tableOf>;
  beforeAll(async () => {
    store = await testStore();
    const { db } = store;
    await db.transaction((tx) => declarePool(tx, 'gpu', { driver: 'external', max_nodes: 9 }, now));
    await placeNodes(db, { pool: 'gpu', count: 1, status: 'quarantined', since: secondsLater(now, -60) });
    await db.query(`update nodes set held = '{"rule": "liveness", "kind": "mass-failure"}'`);
    await db.query(
      `insert into allocations (allocation_id, pool, tenant, status, status_since, correlation_id, created_at)
       values ('alloc_1', 'gpu', 'default', 'release_failed', $1, 'c', $1)`,
      [now],
    );
    await db.query(
      `insert into operations (workflow_id, kind, revision, status, created_at, correlation_id) values ('wf_1', 'k', 1, 'queued', $1, 'c')`,
      [now],
    );
    await db.query(
      `insert into brake_holds (hold_id, kind, rule, scope, name, reason, negative, population, since, held_until)
       values ('hld_1', 'mass-failure', 'liveness', 'pool', 'gpu', 'many at once', 9, 10, $1, $1)`,
      [now],
    );
    await db.query(
      `insert into residue (residue_id, driver, kind, resource, why, reason, since)
       values ('res_1', 'ec2', 'instance', 'i-1', 'orphan', 'no owner', $1)`,
      [now],
    );
    const parts = { tail_seconds: 1, gather_seconds: 1, join_seconds: 1, render_seconds: 1, write_seconds: 1 };
    const latencies = createLatencies();
    latencies.observeCall('node-list', 1);
    latencies.observeOperation('node-provision', 1);
    const scrape = createMetrics(db, clock, {
      version: '1.2.3',
      sweeps: () => [
        {
          ...{ name: 'liveness', runs: 1, decided: 1, held: 1, would_have: 1, last_run_at: now, last_seconds: 1 },
          ...{ every_seconds: 1, lateness_seconds: 1, waiting: false, error: null, failed_at: null },
        },
      ],
      intake: () => ({ held_bytes: 1, refused: 1 }),
      forwarders: () => [{ receiver: 'loki', sent: 1, dropped: 1, waiting: 1 }],
      streams: () => ({ readers: 1, filters: 1, batches: 1, facts: 1, bytes: 1, dropped: 1, ...parts }),
      agentStreams: () => ({ agents: 1, relays: 1 }),
      diskFreeBytes: async () => 1,
      backups: { every_seconds: 86_400, ageSeconds: () => 1 },
      connections: () => ({ open: 1, closed_unknown: 1, closed_idle: 1, refused: 1 }),
      writeLimits: () => ({
        accounts: 1,
        losses: new Map([['instance', { facts_dropped: 1, requests_refused: 1, reports_coalesced: 1 }]] as const),
      }),
      unstoredBeatsMs: () => 1,
      latencies: latencies.metrics,
      databaseConnections: () => new Map([['slipway', { open: 1, busy: 1 }]]),
      waitingForConnection: () => 1,
      tailLagMs: () => 1,
      database: async () => ({ ok: true, state: 'ok', detail: null }),
      overload: () => ({
        ...{ loop_lag_ms: 1, behind_ms: 1, beats_per_second: 1, beat_rate: 1, ...noShortage },
        ...{
          shedding: { reads: true, beats: false, work: false, changes: false, stretch: 1 },
          beats: 1,
          beats_shed: 1,
        },
        ...{ reads_shed: 1, work_refused: 1 },
      }),
    });
    replicaTable = tableOf(await scrape('all'));
  });
  afterAll(() => store.close());

  test('has exactly the metrics and labels of a replica', () => {
    expect(namesAndLabels(ownMetrics(replicaTable))).toEqual(namesAndLabels({ ...fleetMetrics, ...replicaMetrics }));
  });

  test('has only metrics of the process that a replica reports', () => {
    const metrics = namesAndLabels(replicaTable);
    for (const [name, entry] of Object.entries(namesAndLabels(processMetrics))) expect(metrics[name]).toEqual(entry);
  });

  test('lists every value that a replica reports', () => {
    const entries = Object.entries<Metric>({ ...fleetMetrics, ...replicaMetrics });
    for (const [name, { labels }] of entries)
      for (const [key, values] of Object.entries(labels))
        if (values !== null)
          expect(values, `${name} ${key}`).toEqual(expect.arrayContaining(replicaTable[name]?.labels[key] ?? []));
  });

  test('has exactly the metrics of a relay', async () => {
    const relay = await startRelay(
      {
        ...{ server_urls: ['http://127.0.0.1:1'], ca: null, token: null, host: '127.0.0.1', port: 0 },
        ...{ tls_cert: null, tls_key: null, behind_proxy: false, log_level: 'silent' },
      },
      { clock: systemClock, log: createLog({ level: 'silent' }) },
    );
    onTestFinished(() => relay.stop());
    const relayTable = tableOf(await (await fetch(`${relay.url}/metrics`)).text());
    expect(namesAndLabels(relayTable)).toEqual(namesAndLabels(relayMetrics));
  });
});

describe('the expressions', () => {
  const panels = Object.values(dashboards).flatMap(({ rows }) => rows.flatMap((row) => row.panels));
  const expressions = [
    ...Object.entries(alerts).map(([name, { expression }]) => [name, expression]),
    ...panels.flatMap(({ title, series }) => Object.values(series).map((expression) => [title, expression])),
  ];

  test.each(expressions)('%s uses only metrics and labels that exist', (_, expression = '') => {
    expect(unknownNames(expression)).toEqual([]);
  });

  test('every metric is on a dashboard', () => {
    const dashboardMetrics = new Set(
      expressions.flatMap(([, expression = '']) => expression.match(/[a-z_]+/g) ?? []).map(histogramOf),
    );
    const allMetrics = { ...fleetMetrics, ...replicaMetrics, ...relayMetrics };
    expect(Object.keys(allMetrics).filter((name) => !dashboardMetrics.has(name))).toEqual([]);
  });

  test.each([
    ['slipway_sweeps_failing == 1', 'there is no metric slipway_sweeps_failing'],
    ['rate(slipway_shed_total{kind="reads"}[5m])', 'slipway_shed_total has no label kind'],
    ['slipway_shed_total{instance=~"$instance", what="lists"}', 'what of slipway_shed_total is never lists'],
    ['slipway_nodes{status=~"ready|lost"}', 'status of slipway_nodes is never lost'],
    ['max by (zone, status) (slipway_nodes) > 1e3', 'no metric here has the label zone'],
    ['up == 0 unless on(rack) up{job="slipways"}', 'job of up is never slipways', 'no metric here has the label rack'],
  ])('finds what is wrong in %s', (expression, ...wrong) => {
    expect(unknownNames(expression)).toEqual(wrong);
  });

  test('lists no metric twice', () => {
    const tables = [fleetMetrics, replicaMetrics, relayMetrics, processMetrics];
    const names = tables.flatMap((table) => Object.keys(table));
    expect(new Set(names).size).toBe(names.length);
    expect(Object.keys(knownMetrics)).toEqual(expect.arrayContaining(names));
  });
});

describe('the runbook', () => {
  const page = readPage(runbookPage);
  const sections = [...page.matchAll(/^### (.+)\n([\s\S]*?)(?=^### |$(?![\s\S]))/gm)];

  test('has one section for each alert, in the order of the table', () => {
    expect(sections.map(([, name]) => name)).toEqual(Object.keys(alerts));
  });

  test('is linked from each alert by an absolute address, which the documented command replaces', () => {
    const links = (rules: string) => [...rules.matchAll(/^ +runbook_url: (.+)$/gm)].map(([, link]) => link);
    const sections = Object.keys(alerts).map((name) => `${runbookPage}#${runbookAnchor(name)}`);
    const rules = fromRoot('packaging/monitoring/prometheus-rules.yaml');
    expect(links(readFileSync(rules, 'utf8')).toSorted()).toEqual(
      sections.map((section) => `https://slipway.example/${section}`).toSorted(),
    );
    const [, expression = ''] = /^sed '(.+)' monitoring\/prometheus-rules.yaml/m.exec(page) ?? [];
    expect(links(execFileSync('sed', [expression, rules], { encoding: 'utf8' })).toSorted()).toEqual(
      sections.map((section) => `https://wiki.example/slipway/${section}`).toSorted(),
    );
  });

  test.each(sections.map(([, name = '', text = '']) => [name, text]))(
    '%s says what it means, where to look and what to do',
    (_, text) => {
      expect([...text.matchAll(/^- \*\*(.+?):\*\*/gm)].map(([, part]) => part)).toEqual(['Means', 'Look at', 'Do']);
    },
  );

  /** Maps each command to the spellings of each flag it requires, like `['-r', '--reason']`. */
  const commands = new Map(
    [...readPage('docs/reference/cli.md').matchAll(/^#{3,4} slipway (.+)\n([\s\S]*?)(?=^#{2,4} |$(?![\s\S]))/gm)].map(
      ([, name = '', text = '']) => [
        name,
        [...text.matchAll(/^\| `([^`]+)` \|.*\(required[;)]/gm)].map(
          ([, flag = '']) => flag.match(/(?<!\S)--?[a-z-]+/g) ?? [],
        ),
      ],
    ),
  );

  /** Returns what the reference of the command line does not accept in `slipway WORDS…`. */
  function findFaults(line: string): string[] {
    const words = line.split(/\s+/).slice(1);
    const lengths = words.map((_, index) => index + 1).reverse();
    const name = lengths.map((length) => words.slice(0, length).join(' ')).find((each) => commands.has(each));
    if (name === undefined) return [`${line}: there is no such command`];
    const next = words[name.split(' ').length] ?? '-';
    const hasSubcommands = [...commands.keys()].some((each) => each.startsWith(`${name} `));
    if (hasSubcommands && !next.startsWith('-')) return [`${line}: ${name} has no subcommand ${next}`];
    const requiredFlags = commands.get(name) ?? [];
    return requiredFlags
      .filter((spellings) => !spellings.some((flag) => words.includes(flag)))
      .map((spellings) => `${line}: ${spellings.at(-1)} is missing`);
  }

  test('names only commands that exist, with the flags that they require', () => {
    const lines = [...page.matchAll(/^slipway [^#\n]+|(?<=`)slipway [^`]+(?=`)/gm)].map(([line]) => line.trim());
    expect(lines.length).toBeGreaterThan(20);
    expect(lines.flatMap(findFaults)).toEqual([]);
  });

  test.each([
    ['slipway drift repair ID', '--reason is missing'],
    ['slipway act NODE reactivate', '--reason is missing'],
    ['slipway tokens create --name prometheus', '--role is missing'],
    ['slipway drift mend ID', 'drift has no subcommand mend'],
    ['slipway sweep', 'there is no such command'],
  ])('finds what is wrong in %s', (line, fault) => {
    expect(findFaults(line)).toEqual([`${line}: ${fault}`]);
  });
});
