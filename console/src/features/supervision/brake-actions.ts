/** The action that ends a hold of the brake early. */
import { resumeBrake } from '../../api/queries/supervision.ts';
import { type Action, awaitWithNotice } from '../actions/action.ts';
import type { Hold } from './words.ts';

const consequences: Record<Hold['effect'], string> = {
  hold: 'Held verdicts take effect within seconds on all machines that have not recovered. First make sure that the network works and the machines have really failed.',
  'pause-launches': 'New machines are launched there again. First make sure that the cause of the failures is fixed.',
};

export const resumeAction = (hold: Hold): Action => ({
  title: `Resume ${hold.rule} in ${hold.scope} ${hold.name}?`,
  description: consequences[hold.effect],
  button: 'Resume',
  destructive: hold.effect === 'hold',
  needsReason: true,
  run: ({ reason = '' }, key) =>
    awaitWithNotice(`${hold.rule} in ${hold.scope} ${hold.name} resumes`, resumeBrake(hold.hold_id, reason, key)),
});
