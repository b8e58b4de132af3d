/** Resumes a hold of the brake. */
import { resumeBrake } from '../../api/queries/supervision.ts';
import { type Action, andSay } from '../actions/action.ts';
import type { Hold } from './words.ts';

const consequences: Record<Hold['effect'], string> = {
  hold: 'Every verdict that it holds takes effect within seconds, on all machines that are still silent then. Be sure that it is they who are gone, and not the way to them.',
  'pause-launches': 'New machines are launched there again, whatever made the last ones fail.',
};

export const resumeAction = (hold: Hold): Action => ({
  title: `Let ${hold.rule} in ${hold.scope} ${hold.name} go on?`,
  says: consequences[hold.effect],
  button: 'Resume',
  destructive: hold.effect === 'hold',
  needsReason: true,
  run: ({ reason = '' }, key) =>
    andSay(`${hold.rule} in ${hold.scope} ${hold.name} goes on`, resumeBrake(hold.hold_id, reason, key)),
});
