/**
 * Runs sequences round by round. In each round time passes, machines and people act, the rules
 * decide, and the invariants are checked.
 */
import { now, secondsLater, systemClock } from '../../../src/base/clock.ts';
import type { NodeId } from '../../../src/base/ids.ts';
import type { PoolDocument } from '../../../src/contract/pool.ts';
import { endWindow, putWindow } from '../../../src/store/rows/maintenance.ts';
import { declarePool } from '../../../src/store/rows/pools.ts';
import { resumeHolds } from '../../../src/store/supervision/brake.ts';
import { addBeat, saveProbes, sendPlainBeat } from './commands/agents.ts';
import {
  type CommandName,
  choose,
  isFormerCommand,
  isSingleCommand,
  isTransitionMove,
  pickMachine,
  singleCommands,
} from './commands/choose.ts';
import { type CommandContext, mustHave } from './commands/command-context.ts';
import { fingerprintSql, formerCommands } from './commands/former-instances.ts';
import { createNodes, proveGone } from './commands/operations.ts';
import { actor, reEnroll, runTransitionMoves } from './commands/operators.ts';
import { fence, finish, forceRelease } from './commands/releases.ts';
import { type InvariantChecks, openInvariantChecks, type Violation } from './invariants.ts';
import { sharedPools } from './pools.ts';
import { count, type Report } from './report.ts';
import { openSequenceFixture, type Replica } from './sequence-fixture.ts';
import type { Round, Sequence } from './sequences.ts';
import { type NodeView, readStates, type Turn } from './views.ts';
import { readEvidence } from './violation-report.ts';

interface ChosenCommand {
  turn: Turn;
  name: CommandName;
}

const maxConcurrent = 6;
const maxPasses = 200;

async function forEachConcurrently<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const remaining = [...items];
  const worker = async () => {
    for (let item = remaining.pop(); item !== undefined; item = remaining.pop()) await work(item);
  };
  await Promise.all(Array.from({ length: maxConcurrent }, worker));
}

/**
 * The batch sizes of rules that do not return `more`: a full batch means that more rows are due.
 */
const batchSizes: Record<string, number> = { 'queue-deadline': 500, 'release-deadline': 500, 'release-retry': 20 };

/** Runs each rule until nothing more is due. */
async function sweep({ sweeps }: Replica, at: Date): Promise<void> {
  for (const { name, run } of sweeps) {
    for (let pass = 0; ; pass++) {
      if (pass === maxPasses) throw new Error(`${name} still finds due rows after ${maxPasses} passes`);
      const { decided, more } = await run(at);
      if (!(more ?? decided === batchSizes[name])) break;
    }
  }
}

const batchCommands: Partial<Record<CommandName, (context: CommandContext, turns: Turn[]) => Promise<void>>> = {
  create: createNodes,
  probe: saveProbes,
  're-enroll': reEnroll,
  'prove-gone': proveGone,
  fence,
  'finish-release': finish,
  'force-release': forceRelease,
};

async function runBatchCommands(context: CommandContext, chosen: ChosenCommand[]): Promise<void> {
  const moves = chosen.flatMap(({ turn, name }) => (isTransitionMove(name) ? [{ turn, name }] : []));
  await runTransitionMoves(context, moves);
  for (const [name, act] of Object.entries(batchCommands)) {
    const turns = chosen.filter((command) => command.name === name).map(({ turn }) => turn);
    if (turns.length > 0) await act(context, turns);
  }
}

const runSingleCommands = (context: CommandContext, chosen: ChosenCommand[]) =>
  forEachConcurrently(chosen, async ({ turn, name }) => {
    if (isSingleCommand(name)) turn.log(`${name}: ${await singleCommands[name](context, turn)}`);
  });

/**
 * Runs the commands of former instances. Nothing else runs meanwhile, so any change of a node was
 * caused by a former instance.
 */
async function runFormerCommands(context: CommandContext, chosen: ChosenCommand[]): Promise<Violation[]> {
  const formerTurns = chosen.filter(({ name }) => isFormerCommand(name));
  const ids = formerTurns.map(({ turn }) => mustHave(turn.node).node_id);
  const readFingerprints = () =>
    context.fixture.db.query<{ node_id: string; fingerprint: string }>(fingerprintSql, [ids]);
  const rowsBefore = await readFingerprints();
  await forEachConcurrently(formerTurns, async ({ turn, name }) => {
    if (isFormerCommand(name)) turn.log(`${name}: ${await formerCommands[name](context, turn)}`);
  });
  const fingerprintsAfter = new Map(
    (await readFingerprints()).map(({ node_id, fingerprint }) => [node_id, fingerprint]),
  );
  return rowsBefore
    .filter(({ node_id, fingerprint }) => fingerprintsAfter.get(node_id) !== fingerprint)
    .map(({ node_id }) => {
      const { turn, name } = mustHave(formerTurns.find((command) => command.turn.node?.node_id === node_id));
      return { invariant: 'fencing', sequence: turn.sequence.index, id: node_id, detail: `${name} changed the node` };
    });
}

const toggledPool = 'toggled-mode';

/** Applies the round's changes to whole pools: their modes, maintenance windows and brakes. */
async function changePools({ fixture }: CommandContext, round: Round, number: number): Promise<void> {
  const at = now(fixture.clock);
  await fixture.db.transaction(async (tx) => {
    if (round.endsMaintenance) await endWindow(tx, `work-${number - 1}`, actor, at);
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
    if (round.resumesBrake) await resumeHolds(tx, { reason: 'for a test', actor }, at);
    if (round.togglesMode) {
      const mode = number % 2 === 0 ? 'enforce' : 'observe';
      await declarePool(tx, toggledPool, { ...sharedPools[toggledPool], name: toggledPool, mode } as PoolDocument, at);
    }
  });
}

async function passTime({ fixture }: CommandContext, round: Round, untilMs: number): Promise<void> {
  await fixture.clock.advance(untilMs - fixture.clock.nowMs());
  if (round.isServerAway) await fixture.restart();
  else await fixture.publishFlushed(!round.isLagging);
}

export async function runSequences(sequences: readonly Sequence[], schedule: readonly Round[]): Promise<Report> {
  const fixture = await openSequenceFixture(sequences);
  const context: CommandContext = { fixture, credentials: new Map() };
  const beatingNodes = new Set<NodeId>();
  const logs = new Map<number, string[]>(sequences.map(({ index }) => [index, []]));
  const violations: Violation[] = [];
  const secondsByPart: Record<string, number> = {};
  const commands: Record<string, number> = {};
  const measure = async <T>(part: string, work: () => Promise<T>): Promise<T> => {
    const fromMs = systemClock.monotonicMs();
    try {
      return await work();
    } finally {
      count(secondsByPart, part, (systemClock.monotonicMs() - fromMs) / 1000);
    }
  };
  try {
    const checks: InvariantChecks = await openInvariantChecks(fixture.db);
    let roundMs = fixture.clock.nowMs();
    for (const [number, round] of schedule.entries()) {
      roundMs += round.advance_seconds * 1000;
      await measure('time', () => passTime(context, round, roundMs));
      await measure('pools', () => changePools(context, round, number));
      const states = await measure('views', () => readStates(fixture.db));
      const returningNodes: NodeView[] = [];
      const chosenCommands = sequences.flatMap((sequence): ChosenCommand[] => {
        const draws = sequence.turns[number];
        const { nodes, allocations } = states.get(sequence.index) ?? { nodes: [], allocations: [] };
        const senders = nodes.filter((node) => node.registered && beatingNodes.has(node.node_id));
        for (const { node_instance_id } of senders) addBeat(context, node_instance_id);
        returningNodes.push(...senders.filter(({ status }) => status === 'failed' || status === 'offline'));
        if (!draws) return [];
        const log = (text: string) =>
          logs
            .get(sequence.index)
            ?.push(
              `round ${number}${round.racesSweeps ? ' (concurrent with the sweeps)' : ''}, ${now(fixture.clock).toISOString()}: ${text}`,
            );
        const turn: Turn = { sequence, draws, nodes, allocations, node: pickMachine(nodes, draws.subject), log };
        const name = choose(turn);
        if (name === 'beat') beatingNodes.add(mustHave(turn.node).node_id);
        if (name === 'silence') beatingNodes.delete(mustHave(turn.node).node_id);
        if (name === 'beat' || name === 'silence' || name === 'wait') log(name);
        return [{ turn, name }];
      });
      for (const { name } of chosenCommands) count(commands, name);
      violations.push(...(await measure('former instances', () => runFormerCommands(context, chosenCommands))));
      await measure('beats', () => fixture.beats.flush());
      const runBatches = () => measure('batches', () => runBatchCommands(context, chosenCommands));
      const runSingles = () =>
        measure('singles', () =>
          Promise.all([
            runSingleCommands(context, chosenCommands),
            forEachConcurrently(returningNodes, (node) => sendPlainBeat(context, node)),
          ]),
        );
      if (round.racesSweeps) {
        const at = now(fixture.clock);
        const sweeping = fixture.replicas.map((replica) => measure('sweeps', () => sweep(replica, at)));
        await Promise.all([runBatches(), runSingles(), ...sweeping]);
      } else {
        await runBatches();
        await runSingles();
      }
      await measure('beats', () => fixture.beats.flush());
      await fixture.clock.advance(1);
      await fixture.publishFlushed(!round.isLagging);
      await measure('settling', () => sweep(mustHave(fixture.replicas[0]), now(fixture.clock)));
      violations.push(...(await measure('invariants', () => checks.check(now(fixture.clock), round))));
      if (violations.length > 0) break;
    }
    if (violations.length === 0) violations.push(...(await measure('projection', () => checks.checkHistory())));
    const evidence = await readEvidence(fixture.db, violations);
    const figures = await checks.readFigures();
    return {
      violations,
      logs,
      evidence,
      commands,
      ...figures,
      seconds: secondsByPart,
    };
  } finally {
    await fixture.close();
  }
}
