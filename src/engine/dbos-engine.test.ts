import { randomBytes } from 'node:crypto';
import { dbRetryConfig } from '@dbos-inc/dbos-sdk/internal/utils';
import { Client, Pool } from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { type TestDatabase, testDatabase } from '../../test/support/database.ts';
import { until } from '../../test/support/until.ts';
import { type Clock, moment, pause, systemClock } from '../base/clock.ts';
import type { WorkflowId } from '../base/ids.ts';
import { closeAll, type EngineUnderTest, gate, scene } from './conformance/harness.ts';
import { createDbosEngine } from './dbos-engine.ts';
import type { Engine, EngineListener } from './engine.ts';
import { describeEngine } from './engine-conformance.ts';
import { type EngineLog, silentLog } from './engine-log.ts';

const timeoutMs = 30_000;

const warnings: string[] = [];
const log: EngineLog = { ...silentLog, warn: (_, message) => void warnings.push(message) };

let database: TestDatabase;
beforeAll(async () => {
  database = await testDatabase();
});
afterAll(() => database.drop());

async function query(sql: string, values: unknown[] = []) {
  const client = new Client({ connectionString: database.url });
  await client.connect();
  try {
    return (await client.query(sql, values)).rows;
  } finally {
    await client.end();
  }
}

const statusOf = async (workflow_id: WorkflowId): Promise<string | undefined> =>
  (await query('select status from dbos.workflow_status where workflow_uuid = $1', [`${workflow_id}#1`]))[0]?.status;

const newEngine = (listener: EngineListener, executor_id: string, clock: Clock = systemClock) =>
  createDbosEngine({ connectionString: database.url, clock, executor_id, listener, log });

async function open(
  prepare: (engine: Engine) => void,
  listener: EngineListener,
  clock?: Clock,
): Promise<EngineUnderTest> {
  const idPrefix = randomBytes(4).toString('hex');
  let engines = 0;
  const start = async () => {
    const engine = newEngine(listener, `${idPrefix}-${++engines}`, clock);
    prepare(engine);
    await engine.launch();
    return engine;
  };
  let engine = await start();
  return {
    get engine() {
      return engine;
    },
    nowMs: () => systemClock.nowMs(),
    pass: (seconds) => pause(systemClock, seconds * 1000),
    async until(what, condition) {
      const giveUpMs = systemClock.monotonicMs() + timeoutMs;
      while (!(await condition())) {
        if (systemClock.monotonicMs() > giveUpMs) throw new Error(`timed out waiting for ${what}`);
        await pause(systemClock, 5);
      }
    },
    finished: async (workflow_id) => (await statusOf(workflow_id)) === 'SUCCESS',
    async crash() {
      await engine.shutdown();
      engine = await start();
      return engine.recover([`${idPrefix}-${engines - 1}`]);
    },
    close: () => engine.shutdown(),
  };
}

const dbos = { name: 'DBOS', unit_seconds: 0.1, slack_units: 10, open };

describeEngine(dbos);

describe('the DBOS adapter', () => {
  afterEach(closeAll);

  test('an execution whose run was taken over does not end the run', async () => {
    const stepGate = gate();
    const testRun = await scene(dbos, async (context) => {
      await context.step('hold', stepGate.pass);
      return 'from the zombie';
    });
    await testRun.start();
    await testRun.system.until('the step', () => stepGate.blocked === 1);
    const id = `${testRun.workflow_id}#1`;
    await query(
      `update dbos.workflow_status set owner_xid = 'another', executor_id = 'another' where workflow_uuid = $1`,
      [id],
    );
    stepGate.open();
    await testRun.system.until('the notice', () => warnings.includes('another executor took this run over'));
    expect(testRun.outcomes).toEqual([]);
    expect(await statusOf(testRun.workflow_id)).toBe('PENDING');
  });

  test('executes a run again if its journal failed with an error that DBOS does not retry', async () => {
    const fastClock: Clock = { ...systemClock, after: (ms, run) => systemClock.after(Math.min(ms, 20), run) };
    const fastAdapter = {
      ...dbos,
      open: (...[prepare, listener]: Parameters<typeof open>) => open(prepare, listener, fastClock),
    };
    const stepGate = gate();
    const testRun = await scene(fastAdapter, async (context) => {
      await context.step('refused', stepGate.pass);
      return 'in the end';
    });
    await testRun.start();
    await testRun.system.until('the step', () => stepGate.blocked === 1);
    await query(`create function dbos.refuse() returns trigger language plpgsql as $$ begin raise 'refused'; end $$`);
    await query('create trigger refuse before insert on dbos.operation_outputs execute function dbos.refuse()');
    stepGate.open();
    await testRun.system.until('a second execution', () => testRun.executions > 1);
    await query('drop trigger refuse on dbos.operation_outputs');
    expect(await testRun.outcome()).toEqual({ status: 'succeeded', result: 'in the end' });
  });

  test('a run survives the loss of all connections', async () => {
    const stepGate = gate();
    let there = false;
    const testRun = await scene(dbos, async (context) => {
      await context.step('hold', stepGate.pass);
      const until = moment(testRun.system.nowMs() + 60_000);
      return context.waitFor('there', async () => (there ? 'in the end' : undefined), { until, poll_seconds: 0.5 });
    });
    await testRun.start();
    await testRun.system.until('the step', () => stepGate.blocked === 1);
    const cutConnections = () =>
      query(
        `select pg_terminate_backend(pid) from pg_stat_activity
          where application_name = 'slipway-engine' and datname = current_database()`,
      );
    expect((await cutConnections()).length).toBeGreaterThan(0);
    stepGate.open();
    await testRun.system.until('the wait', () => testRun.steps.some((report) => report.status === 'waiting'));
    await cutConnections();
    there = true;
    expect(await testRun.outcome()).toEqual({ status: 'succeeded', result: 'in the end' });
    // If DBOS does not retry a call, the run is executed again from its journal. It still ends
    // once.
    expect(testRun.outcomes).toHaveLength(1);
  });

  test('deletes only the records of runs that ended long ago', async () => {
    const stepGate = gate();
    const testRun = await scene(dbos, (context, params) =>
      params === 'stay' ? context.step('hold', stepGate.pass).then(() => null) : context.step('go', async () => null),
    );
    const other = `${testRun.workflow_id}x` as WorkflowId;
    await testRun.start();
    await testRun.outcome();
    await testRun.system.engine.start({
      workflow_id: other,
      attempt: 1,
      kind: testRun.kind,
      revision: 1,
      params: 'stay',
    });
    await testRun.system.until('the second run', () => stepGate.blocked === 1);
    const engine = testRun.system.engine as ReturnType<typeof createDbosEngine>;
    const ids = () =>
      query('select workflow_uuid from dbos.workflow_status where workflow_uuid like $1', [`${testRun.workflow_id}%`]);
    await engine.collectFinished(3600);
    expect(await ids()).toHaveLength(2);
    expect(await engine.collectFinished(0)).toBeGreaterThanOrEqual(1);
    expect(await ids()).toEqual([{ workflow_uuid: `${other}#1` }]);
    const tables = await query(
      `select relname as name from pg_class where relnamespace = 'dbos'::regnamespace and relkind = 'r'`,
    );
    expect(tables.length).toBeGreaterThan(5);
    for (const { name } of tables)
      expect(
        await query(`select from dbos.${name} source where source::text like $1`, [`%${testRun.workflow_id}#1%`]),
        name,
      ).toHaveLength(0);
    stepGate.open();
  });

  // DBOS multiplies a pause by at most 1.5. This test fails if a release of DBOS renames a field.
  test('DBOS asks an unavailable store again within 1.5 s', async () => {
    await scene(dbos, async () => null);
    expect(dbRetryConfig).toEqual({ initialBackoffSec: 0.25, maxBackoffSec: 1 });
  });

  test('a process launches one engine at a time', async () => {
    const testRun = await scene(dbos, async () => null);
    const ignore = async () => {};
    const listener = { executing: ignore, stepStarted: ignore, stepEnded: ignore, emitted: ignore, ended: ignore };
    const second = newEngine(listener, 'second');
    await expect(second.launch()).rejects.toThrow(/already launched/);
    await second.shutdown();
    await testRun.start();
    expect(await testRun.outcome()).toEqual({ status: 'succeeded', result: null });
  });

  test('an idle engine polls only the queue of recovered runs', async () => {
    const statements: string[] = [];
    const ignore = async () => {};
    const engine = createDbosEngine({
      connectionString: database.url,
      clock: systemClock,
      executor_id: 'idle',
      listener: { executing: ignore, stepStarted: ignore, stepEnded: ignore, emitted: ignore, ended: ignore },
      log,
      store: {
        Client,
        isUnavailable: () => false,
        unavailableMs: () => 0,
        onRecovery: () => {},
        openPool: (config) =>
          new Pool(config).on('connect', (client) => {
            const original = client.query.bind(client) as (...args: unknown[]) => unknown;
            client.query = ((first: string | { text: string }, ...rest: unknown[]) => {
              statements.push(typeof first === 'string' ? first : first.text);
              return original(first, ...rest);
            }) as typeof client.query;
          }),
      },
    });
    const count = (pattern: RegExp) => statements.filter((text) => pattern.test(text)).length;
    const countPolls = () => count(/skip locked/i);
    await engine.launch();
    try {
      await until('four polls of the queue', () => countPolls() >= 4, { seconds: 60 });
    } finally {
      await engine.shutdown();
    }
    expect(count(/from "dbos"\.queues/i), 'reads of the queues').toBeLessThanOrEqual(1);
    expect(count(/delay_until_epoch_ms <=/i), 'searches for delayed runs').toBeLessThanOrEqual(1);
  });

  test('refuses to start an unregistered operation', async () => {
    const testRun = await scene(dbos, async () => null);
    const run = { workflow_id: testRun.workflow_id, attempt: 1, kind: 'unheard-of', revision: 3, params: null };
    await expect(testRun.system.engine.start(run)).rejects.toThrow('no operation unheard-of@3');
  });

  test('an engine does not recover its own runs', async () => {
    const stepGate = gate();
    const testRun = await scene(dbos, (context) => context.step('hold', stepGate.pass).then(() => null));
    await testRun.start();
    await testRun.system.until('the step', () => stepGate.blocked === 1);
    const [row] = await query('select executor_id from dbos.workflow_status where workflow_uuid = $1', [
      `${testRun.workflow_id}#1`,
    ]);
    expect(await testRun.system.engine.recover([row.executor_id])).toBe(0);
    stepGate.open();
    await testRun.outcome();
    expect(testRun.executions).toBe(1);
  });
});
