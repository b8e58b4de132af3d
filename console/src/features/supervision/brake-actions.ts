/** Resumes a hold of the brake. */
import { resumeBrake } from '../../api/queries/supervision.ts';
import { type Action, thenNotify } from '../actions/action.ts';
import type { Hold } from './words.ts';

const consequences: Record<Hold['effect'], string> = {
  hold: 'Held verdicts take effect within seconds on all machines that are still silent. Make sure that the machines are gone, not the network.',
  'pause-launches': 'New machines are launched there again, whatever caused the failures.',
};

export const resumeAction = (hold: Hold): Action => ({
  title: `Resume ${hold.rule} in ${hold.scope} ${hold.name}?`,
  says: consequences[hold.effect],
  button: 'Resume',
  destructive: hold.effect === 'hold',
  needsReason: true,
  run: ({ reason = '' }, key) =>
    thenNotify(`${hold.rule} in ${hold.scope} ${hold.name} resumes`, resumeBrake(hold.hold_id, reason, key)),
});
