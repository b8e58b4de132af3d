/**
 * A simulated slow provider. It queues requests, creates slowly, and deletes only after the
 * creation was aborted. It records its calls. Everything around it is real.
 */
import type { Driver, EnsureTarget } from '../../../src/drivers/driver.ts';
import { simulatedDriver } from './simulated-driver.ts';

export type UpstreamState = 'nothing' | 'creating' | 'aborting' | 'partial' | 'deleted';

export interface SlowUpstream {
  driver: Driver;
  state: UpstreamState;
  /** The requested actions and their results, in order, without repeats. */
  calls: string[];
  /** The target that the machine registers with. */
  target: EnsureTarget | undefined;
  /** While false, requests are queued for capacity. */
  hasRoom: boolean;
  /** While false, an abort stays in progress. */
  completesAborts: boolean;
}

const retrySoon = { outcome: 'wait', retry_seconds: 0.2 } as const;

export function slowUpstream(): SlowUpstream {
  const record = (what: string) => {
    if (upstream.calls.at(-1) !== what) upstream.calls.push(what);
  };
  const become = (state: UpstreamState, what: string) => {
    upstream.state = state;
    record(what);
  };
  const exists = () => upstream.state !== 'nothing' && upstream.state !== 'deleted';
  const destroy: Driver['destroy'] = async () => {
    if (upstream.state === 'creating' || upstream.state === 'aborting') {
      record('delete refused');
      const message = 'another operation on it is in progress';
      return { outcome: 'failed', owner_layer: 'provider', code: 'conflict', message, retryable: false };
    }
    if (exists()) become('deleted', 'deleted');
    return { outcome: 'done', message: 'nothing is left upstream' };
  };
  const driver = simulatedDriver({
    async ensure(target) {
      upstream.target = target;
      if (!upstream.hasRoom) return { ...retrySoon, message: 'in the queue', waits_for: 'capacity' };
      if (upstream.state === 'nothing') become('creating', 'creating');
      const parts = [{ name: 'disk', kind: 'part', state: 'Creating', tone: 'busy' as const }];
      return { ...retrySoon, message: 'upstream state: Creating', parts };
    },
    async abort(target) {
      // An abort is a request of its own. The caller must keep the id of the request in its state.
      const isUnderWay = upstream.state === 'creating' || upstream.state === 'aborting';
      if (isUnderWay && target.state.abort_request === undefined) {
        upstream.state = 'aborting';
        upstream.calls.push('abort requested');
        return { ...retrySoon, message: 'upstream state: Aborting', state: { abort_request: 'request-1' } };
      }
      if (upstream.state === 'aborting' && upstream.completesAborts) become('partial', 'abort observed');
      if (upstream.state === 'aborting') return { ...retrySoon, message: 'upstream state: Aborting' };
      return { outcome: 'done', message: 'nothing is being created any more' };
    },
    destroy,
    inspect: async () => ({ state: upstream.state, present: exists(), ready: false, detail: null }),
    async prove(_, { kind, nonce }) {
      if (exists())
        return {
          ...{ outcome: 'failed', owner_layer: 'provider', code: 'still_there', retryable: false },
          message: `upstream it is ${upstream.state}`,
        };
      record('proven absent');
      return { outcome: 'done', proof: { kind, nonce, checked: [{ what: 'the upstream', seen: upstream.state }] } };
    },
  });
  const upstream: SlowUpstream = {
    ...{ driver, state: 'nothing', calls: [], target: undefined, hasRoom: true, completesAborts: true },
  };
  return upstream;
}
