/** Commands of instances that were replaced. None of them may change a node or an allocation. */
import { now } from '../../../../src/base/clock.ts';
import { nodeEdges } from '../../../../src/lifecycle/model/transitions.ts';
import { transition } from '../../../../src/store/transitions/node-transition.ts';
import { pickAt } from '../random.ts';
import type { Turn } from '../views.ts';
import {
  addBeat,
  enrollmentTokenOf,
  registerAgain,
  registerAgent,
  reportBootStage,
  reportPrerequisiteResults,
  reportStatus,
} from './agents.ts';
import { type CommandContext, mustHave } from './command-context.ts';

const pickFormerInstance = ({ node, draws }: Turn) => pickAt(mustHave(node).former, draws.subject);

export const formerCommands = {
  'former-report-status': async (context: CommandContext, turn: Turn) => {
    addBeat(context, pickFormerInstance(turn));
    return reportStatus(context, mustHave(turn.node), pickFormerInstance(turn), turn.draws.variant);
  },
  'former-register': (context: CommandContext, turn: Turn) =>
    registerAgent(context, {
      enrollment_token: enrollmentTokenOf(context, mustHave(turn.node), pickFormerInstance(turn)),
      version: '0',
    }),
  'former-register-again': (context: CommandContext, turn: Turn) => registerAgain(context, pickFormerInstance(turn)),
  'former-report-prerequisites': (context: CommandContext, turn: Turn) =>
    reportPrerequisiteResults(context, mustHave(turn.node), pickFormerInstance(turn), turn.draws.variant),
  'former-boot-stage': (context: CommandContext, turn: Turn) =>
    reportBootStage(context, mustHave(turn.node), pickFormerInstance(turn), turn.draws.variant),
  /** An interrupted operation continues after the instance it acts on was replaced. */
  'former-operation': async ({ fixture }: CommandContext, turn: Turn) => {
    const { node_id, status } = mustHave(turn.node);
    const edges = nodeEdges.filter(({ from }) => from === status);
    if (edges.length === 0) return 'an operation of a former instance: no edge from this status';
    const { to, by } = pickAt(edges, turn.draws.variant);
    const move = {
      node_id,
      node_instance_id: pickFormerInstance(turn),
      to,
      by: pickAt(by, turn.draws.subject),
      reason: 'late',
    };
    const [outcome] = await fixture.db.transaction((tx) =>
      transition(tx, [move], now(fixture.clock), fixture.environment),
    );
    return `an operation of a former instance (${to} by ${move.by}): ${outcome?.moved ? 'moved' : outcome?.because}`;
  },
};

/** Hashes the rows of each node and its allocations, to compare them before and after a command. */
export const fingerprintSql = `
  select node.node_id,
    md5(node::text) || coalesce((
      select string_agg(md5(allocation::text), '' order by allocation_id)
      from allocations allocation
      where allocation.node_id = node.node_id
    ), '') as fingerprint
  from nodes node
  where node_id = any($1)
  order by node_id`;
