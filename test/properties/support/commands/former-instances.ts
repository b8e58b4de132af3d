/** Requests of replaced instances. None of them may change anything. */
import { now } from '../../../../src/base/clock.ts';
import { nodeEdges } from '../../../../src/lifecycle/model/transitions.ts';
import { transition } from '../../../../src/store/transitions/node-transition.ts';
import { at } from '../random.ts';
import type { Turn } from '../views.ts';
import { addBeat, advance, registerAgain, registerAgent, report, sendReport, tokenOf } from './agents.ts';
import { mustHave, type Stage } from './stage.ts';

const formerOf = ({ node, draws }: Turn) => at(mustHave(node).former, draws.who);

export const formerCommands = {
  'former-claims': async (stage: Stage, turn: Turn) => {
    addBeat(stage, formerOf(turn));
    return sendReport(stage, mustHave(turn.node), formerOf(turn), turn.draws.how);
  },
  'former-enrols': (stage: Stage, turn: Turn) =>
    registerAgent(stage, { enrollment_token: tokenOf(stage, mustHave(turn.node), formerOf(turn)), version: '0' }),
  'former-returns': (stage: Stage, turn: Turn) => registerAgain(stage, formerOf(turn)),
  'former-reports': (stage: Stage, turn: Turn) => report(stage, mustHave(turn.node), formerOf(turn), turn.draws.how),
  'former-boots': (stage: Stage, turn: Turn) => advance(stage, mustHave(turn.node), formerOf(turn), turn.draws.how),
  /** An interrupted operation continues after its instance was replaced. */
  'former-operation': async ({ world }: Stage, turn: Turn) => {
    const { node_id, status } = mustHave(turn.node);
    const open = nodeEdges.filter(({ from }) => from === status);
    if (open.length === 0) return 'an operation of a former instance: nothing is open';
    const { to, by } = at(open, turn.draws.how);
    const move = { node_id, node_instance_id: formerOf(turn), to, by: at(by, turn.draws.who), reason: 'late' };
    const [outcome] = await world.db.transaction((tx) => transition(tx, [move], now(world.clock), world.environment));
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
