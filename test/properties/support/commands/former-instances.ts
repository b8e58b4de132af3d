/** Requests of replaced instances. None of them may change anything. */
import { now } from '../../../../src/base/clock.ts';
import { nodeEdges } from '../../../../src/lifecycle/model/transitions.ts';
import { transition } from '../../../../src/store/transitions/node-transition.ts';
import { at } from '../random.ts';
import type { Turn } from '../views.ts';
import { addBeat, advance, registerAgain, registerAgent, report, sendReport, tokenOf } from './agents.ts';
import { type CommandContext, mustHave } from './command-context.ts';

const formerOf = ({ node, draws }: Turn) => at(mustHave(node).former, draws.who);

export const formerCommands = {
  'former-claims': async (context: CommandContext, turn: Turn) => {
    addBeat(context, formerOf(turn));
    return sendReport(context, mustHave(turn.node), formerOf(turn), turn.draws.how);
  },
  'former-enrols': (context: CommandContext, turn: Turn) =>
    registerAgent(context, { enrollment_token: tokenOf(context, mustHave(turn.node), formerOf(turn)), version: '0' }),
  'former-returns': (context: CommandContext, turn: Turn) => registerAgain(context, formerOf(turn)),
  'former-reports': (context: CommandContext, turn: Turn) =>
    report(context, mustHave(turn.node), formerOf(turn), turn.draws.how),
  'former-boots': (context: CommandContext, turn: Turn) =>
    advance(context, mustHave(turn.node), formerOf(turn), turn.draws.how),
  /** An interrupted operation continues after its instance was replaced. */
  'former-operation': async ({ fixture }: CommandContext, turn: Turn) => {
    const { node_id, status } = mustHave(turn.node);
    const open = nodeEdges.filter(({ from }) => from === status);
    if (open.length === 0) return 'an operation of a former instance: nothing is open';
    const { to, by } = at(open, turn.draws.how);
    const move = { node_id, node_instance_id: formerOf(turn), to, by: at(by, turn.draws.who), reason: 'late' };
    const [outcome] = await fixture.db.transaction((tx) =>
      transition(tx, [move], now(fixture.clock), fixture.environment),
    );
    return `an operation of a former instance (${to} by ${move.by}): ${outcome?.moved ? 'moved' : outcome?.because}`;
  },
};

/** A hash of the rows of a node and its allocations, to be compared before and after. */
export const fingerprints = `
  select node.node_id,
    md5(node::text) || coalesce((
      select string_agg(md5(allocation::text), '' order by allocation_id)
      from allocations allocation
      where allocation.node_id = node.node_id
    ), '') as print
  from nodes node
  where node_id = any($1)
  order by node_id`;
