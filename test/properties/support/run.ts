/**
 * Runs sequences round by round: time passes, machines and people act, rules decide, invariants are
 * checked.
 */
import { now, secondsLater, systemClock } from '../../../src/base/clock.ts';
import type { NodeId } from '../../../src/base/ids.ts';
import type { PoolDocument } from '../../../src/contract/pool.ts';
import { endWindow, putWindow } from '../../../src/store/rows/maintenance.ts';
import { declarePool } from '../../../src/store/rows/pools.ts';
import { resumeHolds } from '../../../src/store/supervision/brake.ts';
import { addBeat, answerProbes, sendPlainBeat } from './commands/agents.ts';
import {
  type CommandName,
  choose,
  isFormer,
  isSingle,
  isTransitionMove,
  machineOf,
  singles,
} from './commands/choose.ts';
import { type CommandContext, mustHave } from './commands/command-context.ts';
import { fingerprints, formerCommands } from './commands/former-instances.ts';
import { appear, proveGone } from './commands/operations.ts';
import { actor, moveTogether, reEnroll } from './commands/operators.ts';
import { fence, finish, forceRelease } from './commands/releases.ts';
import { type InvariantChecks, openInvariantChecks, type Violation } from './invariants.ts';
import { sharedPools } from './pools.ts';
import { count, type Report } from './report.ts';
import { openSequenceFixture, type Replica } from './sequence-fixture.ts';
import type { Round, Sequence } from './sequences.ts';
import { type NodeView, readStates, type Turn } from './views.ts';
import { recordOf } from './violation-report.ts';

interface Chosen {
  turn: Turn;
  name: CommandName;
}

const atOnce = 6;
const maxPasses = 200;

async function inParallel<T>(list: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const left = [...list];
  const worker = async () => {
    for (let item = left.pop(); item !== undefined; item = left.pop()) await work(item);
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
}

/** Runs each rule until nothing more is due. */
async function sweep({ sweeps }: Replica, at: Date, batchSizes: Record<string, number>): Promise<void> {
  for (const { name, run } of sweeps) {
    for (let pass = 0; ; pass++) {
      if (pass === maxPasses) throw new Error(`${name} always finds more`);
      const { decided, more } = await run(at);
      if (!(more ?? decided === batchSizes[name])) break;
    }
  }
}

/** Batch sizes of rules that do not return `more`. */
const batches = { 'queue-deadline': 500, 'release-deadline': 500, 'release-retry': 20 };

const batchCommands: Partial<Record<CommandName, (context: CommandContext, turns: Turn[]) => Promise<void>>> = {
  appear,
  probe: answerProbes,
  're-enroll': reEnroll,
  prove: proveGone,
  fence,
  finish,
  force: forceRelease,
};

async function actTogether(context: CommandContext, chosen: Chosen[]): Promise<void> {
  const moves = chosen.flatMap(({ turn, name }) => (isTransitionMove(name) ? [{ turn, name }] : []));
  await moveTogether(context, moves);
  for (const [name, act] of Object.entries(batchCommands)) {
    const turns = chosen.filter((each) => each.name === name).map(({ turn }) => turn);
    if (turns.length > 0) await act(context, turns);
  }
}

const actAlone = (context: CommandContext, chosen: Chosen[]) =>
  inParallel(chosen, async ({ turn, name }) => {
    if (isSingle(name)) turn.log(`${name}: ${await singles[name](context, turn)}`);
  });

/** Former instances act alone, so that any change is theirs. */
async function actAsFormer(context: CommandContext, chosen: Chosen[]): Promise<Violation[]> {
  const acting = chosen.filter(({ name }) => isFormer(name));
  const ids = acting.map(({ turn }) => mustHave(turn.node).node_id);
  const before = await context.fixture.db.query<{ node_id: string; print: string }>(fingerprints, [ids]);
  await inParallel(acting, async ({ turn, name }) => {
    if (isFormer(name)) turn.log(`${name}: ${await formerCommands[name](context, turn)}`);
  });
  const after = new Map(
    (await context.fixture.db.query<{ node_id: string; print: string }>(fingerprints, [ids])).map((row) => [
      row.node_id,
      row.print,
    ]),
  );
  return before
    .filter(({ node_id, print }) => after.get(node_id) !== print)
    .map(({ node_id }) => {
      const { turn, name } = mustHave(acting.find((each) => each.turn.node?.node_id === node_id));
      return { invariant: 'fencing', sequence: turn.sequence.index, id: node_id, what: `${name} changed the node` };
    });
}

/** Changes that concern whole pools: modes, maintenance windows, the brake. */
async function actOnPools({ fixture }: CommandContext, round: Round, number: number): Promise<void> {
  const at = now(fixture.clock);
  await fixture.db.transaction(async (tx) => {
    if (round.endMaintenance) await endWindow(tx, `work-${number - 1}`, actor, at);
    if (round.maintenance) {
      const { maintenance } = round;
      await putWindow(tx, {
        name: `work-${number}`,
        pool: 'pool' in maintenance ? maintenance.pool : null,
        zone: 'zone' in maintenance ? maintenance.zone : null,
        labels: 'label' in maintenance ? { digit: maintenance.label } : {},
        starts_at: at,
        ends_at: secondsLater(at, 40),
        reason: 'for a test',
        actor,
        created_at: at,
      });
    }
    if (round.resumeBrake) await resumeHolds(tx, { reason: 'seen', actor }, at);
    if (round.turnMode) {
      const mode = number % 2 === 0 ? 'enforce' : 'observe';
      await declarePool(tx, 'toggled', { ...sharedPools.toggled, name: 'toggled', mode } as PoolDocument, at);
    }
  });
}

async function passTime({ fixture }: CommandContext, round: Round, untilMs: number): Promise<void> {
  await fixture.clock.advance(untilMs - fixture.clock.nowMs());
  if (round.away) await fixture.restart();
  else await fixture.publishFlushed(!round.lagging);
}

export async function runSequences(sequences: readonly Sequence[], schedule: readonly Round[]): Promise<Report> {
  const fixture = await openSequenceFixture(sequences);
  const context: CommandContext = { fixture, credentials: new Map() };
  const beating = new Set<NodeId>();
  const logs = new Map<number, string[]>(sequences.map(({ index }) => [index, []]));
  const violations: Violation[] = [];
  const spent: Record<string, number> = {};
  const commands: Record<string, number> = {};
  const timed = async <T>(what: string, work: () => Promise<T>): Promise<T> => {
    const fromMs = systemClock.monotonicMs();
    try {
      return await work();
    } finally {
      count(spent, what, (systemClock.monotonicMs() - fromMs) / 1000);
    }
  };
  try {
    const checks: InvariantChecks = await openInvariantChecks(fixture.db);
    let roundMs = fixture.clock.nowMs();
    for (const [number, round] of schedule.entries()) {
      roundMs += round.advance_seconds * 1000;
      await timed('time', () => passTime(context, round, roundMs));
      await timed('pools', () => actOnPools(context, round, number));
      const states = await timed('views', () => readStates(fixture.db));
      const returning: NodeView[] = [];
      const chosen = sequences.flatMap((sequence): Chosen[] => {
        const draws = sequence.turns[number];
        const { nodes, allocations } = states.get(sequence.index) ?? { nodes: [], allocations: [] };
        const alive = nodes.filter((node) => node.registered && beating.has(node.node_id));
        for (const { node_instance_id } of alive) addBeat(context, node_instance_id);
        returning.push(...alive.filter(({ status }) => status === 'failed' || status === 'offline'));
        if (!draws) return [];
        const log = (text: string) =>
          logs
            .get(sequence.index)
            ?.push(
              `round ${number}${round.racing ? ' (concurrent with the sweeps)' : ''}, ${now(fixture.clock).toISOString()}: ${text}`,
            );
        const turn: Turn = { sequence, draws, nodes, allocations, node: machineOf(nodes, draws.who), log };
        const name = choose(turn);
        if (name === 'beat') beating.add(mustHave(turn.node).node_id);
        if (name === 'silence') beating.delete(mustHave(turn.node).node_id);
        if (name === 'beat' || name === 'silence' || name === 'wait') log(name);
        return [{ turn, name }];
      });
      for (const { name } of chosen) count(commands, name);
      violations.push(...(await timed('formerCommands', () => actAsFormer(context, chosen))));
      await timed('beats', () => fixture.beats.flush());
      const together = () => timed('batches', () => actTogether(context, chosen));
      const alone = () =>
        timed('singles', () =>
          Promise.all([actAlone(context, chosen), inParallel(returning, (node) => sendPlainBeat(context, node))]),
        );
      if (round.racing) {
        const at = now(fixture.clock);
        const sweeping = fixture.replicas.map((replica) => timed('sweeps', () => sweep(replica, at, batches)));
        await Promise.all([together(), alone(), ...sweeping]);
      } else {
        await together();
        await alone();
      }
      await timed('beats', () => fixture.beats.flush());
      await fixture.clock.advance(1);
      await fixture.publishFlushed(!round.lagging);
      await timed('settling', () => sweep(mustHave(fixture.replicas[0]), now(fixture.clock), batches));
      violations.push(...(await timed('invariants', () => checks.check(now(fixture.clock), round))));
      if (violations.length > 0) break;
    }
    if (violations.length === 0) violations.push(...(await timed('projection', () => checks.checkHistory())));
    const record = await recordOf(fixture.db, violations);
    const figures = await checks.figures();
    return {
      violations,
      logs,
      record,
      commands,
      ...figures,
      spent,
    };
  } finally {
    await fixture.close();
  }
}
