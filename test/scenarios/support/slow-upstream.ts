/**
 * A provider that takes its time: it queues, creates slowly, and what it creates can be deleted only once the creation was called
 * off. Simulated, with what it was asked to do on record; everything around it is the product's own.
 */
import type { Driver, EnsureTarget } from '../../../src/drivers/driver.ts';
import { simulatedDriver } from './simulated-driver.ts';

export type UpstreamState = 'nothing' | 'creating' | 'aborting' | 'partial' | 'deleted';

export interface SlowUpstream {
  driver: Driver;
  state: UpstreamState;
  /** What it was asked to do and what came of it, in order; each once. */
  told: string[];
  /** What the machine was given to phone home with. */
  target: EnsureTarget | undefined;
  /** Until then it has no room. */
  hasRoom: boolean;
  /** Until then an abort is under way. */
  aborts: boolean;
}

const lookAgain = { outcome: 'wait', retry_seconds: 0.2 } as const;

export function slowUpstream(): SlowUpstream {
  const tell = (what: string) => {
    if (upstream.told.at(-1) !== what) upstream.told.push(what);
  };
  const become = (state: UpstreamState, what: string) => {
    upstream.state = state;
    tell(what);
  };
  const isThere = () => upstream.state !== 'nothing' && upstream.state !== 'deleted';
  const deleteIt: Driver['destroy'] = async () => {
    if (upstream.state === 'creating' || upstream.state === 'aborting') {
      tell('delete refused');
      const message = 'another operation on it is in progress';
      return { outcome: 'failed', owner_layer: 'provider', code: 'conflict', message, retryable: false };
    }
    if (isThere()) become('deleted', 'deleted');
    return { outcome: 'done', message: 'nothing is left upstream' };
  };
  const driver = simulatedDriver({
    async ensure(target) {
      upstream.target = target;
      if (!upstream.hasRoom) return { ...lookAgain, message: 'in the queue', waits_for: 'capacity' };
      if (upstream.state === 'nothing') become('creating', 'creating');
      const parts = [{ name: 'disk', kind: 'part', state: 'Creating', tone: 'busy' as const }];
      return { ...lookAgain, message: 'upstream state: Creating', parts };
    },
    async abort(target) {
      // It is asked by a request of its own, which whoever asks must remember.
      const isUnderWay = upstream.state === 'creating' || upstream.state === 'aborting';
      if (isUnderWay && target.state.abort_request === undefined) {
        upstream.state = 'aborting';
        upstream.told.push('abort asked');
        return { ...lookAgain, message: 'upstream state: Aborting', state: { abort_request: 'request-1' } };
      }
      if (upstream.state === 'aborting' && upstream.aborts) become('partial', 'abort observed');
      if (upstream.state === 'aborting') return { ...lookAgain, message: 'upstream state: Aborting' };
      return { outcome: 'done', message: 'nothing is being created any more' };
    },
    destroy: deleteIt,
    observe: async () => ({ state: upstream.state, present: isThere(), ready: false, detail: null }),
    async prove(_, { kind, nonce }) {
      if (isThere())
        return {
          ...{ outcome: 'failed', owner_layer: 'provider', code: 'still_there', retryable: false },
          message: `upstream it is ${upstream.state}`,
        };
      tell('proven absent');
      return { outcome: 'done', proof: { kind, nonce, checked: [{ what: 'the upstream', seen: upstream.state }] } };
    },
  });
  const upstream: SlowUpstream = {
    ...{ driver, state: 'nothing', told: [], target: undefined, hasRoom: true, aborts: true },
  };
  return upstream;
}
