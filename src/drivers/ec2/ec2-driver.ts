/**
 * Runs each node as a machine of EC2, or of another provider with the same API. At its first boot
 * the machine fetches the agent from the control plane.
 *
 * An instance is found by its tags, so a crash between any two steps loses nothing. The client is
 * loaded at first use of a region. Credentials come from the server's environment, as for every AWS
 * client.
 */
import type { Clock } from '../../base/clock.ts';
import { isLoopbackUrl } from '../../base/network/insecure-http.ts';
import type {
  Driver,
  DriverFailure,
  DriverOutcome,
  DriverState,
  DriverTarget,
  DriverWait,
  PlannedStep,
} from '../driver.ts';
import { createDriverCalls } from '../driver-call.ts';
import { createSharedLists, openOnce } from '../open-once.ts';
import { type Cloud, openCloud } from './cloud.ts';
import { messageOf } from './cloud-error.ts';
import { cloudFailure, cloudUnavailable, type RetryReason, retryReasonOf } from './cloud-failure.ts';
import { type Ec2Host, regionOf } from './ec2-host.ts';
import { ensure } from './ensure.ts';
import { diagnose, inspect, listOwned, prove } from './inspect.ts';
import { createRedactFor, type Redact } from './secrets.ts';
import { Ec2Spec } from './spec.ts';
import { tagNames } from './tags.ts';
import { abort, clean, destroy, stop } from './teardown.ts';

export interface Ec2DriverOptions {
  /** Null means the provider's own URL in each region. */
  endpoint: string | null;
  clock: Clock;
  /** The `region` of each pool; empty if no pool uses this driver. */
  regionsInUse: Ec2Host['regionsInUse'];
  bundleDigest: Ec2Host['bundleDigest'];
  stop_grace_seconds?: number;
  poll_seconds?: number;
}

const plan = (): PlannedStep[] => [
  { phase: 'request', label: 'Requesting the machine', usual_seconds: 2, owner_layer: 'provider' },
  { phase: 'boot', label: 'Waiting until the machine runs', usual_seconds: 20, owner_layer: 'provider' },
];

/**
 * Counts the retries in a row for the same reason. The count is stored with the machine, so that
 * the pauses keep growing after a restart.
 */
const retryCount = ({ state }: DriverTarget, reason: RetryReason): number =>
  state.put_off_for === reason && typeof state.put_off_times === 'number' ? state.put_off_times : 0;

/**
 * A refused launch cannot have created a machine, so its record is dropped. An unanswered launch
 * may have created one, so its record is kept.
 */
const stateForRetry = (
  { refused }: Ec2Host,
  { node_instance_id, state }: DriverTarget,
  reason: RetryReason,
  times: number,
): DriverState => {
  const { asked_at_ms: _, ...stateWithoutLaunch } = state;
  const no_room = reason === 'capacity' || state.no_room === true;
  return {
    ...(refused.has(node_instance_id) ? stateWithoutLaunch : state),
    no_room,
    put_off_for: reason,
    put_off_times: times,
  };
};

/** Ends the backoff after a successful call. A wait of 0 s means that EC2 was not called yet. */
const clearBackoff = (answer: DriverOutcome, { state }: DriverTarget): DriverOutcome => {
  const callSucceeded = answer.outcome === 'done' || (answer.outcome === 'wait' && answer.retry_seconds > 0);
  if (!callSucceeded || state.put_off_for === undefined) return answer;
  const { no_room: _, put_off_for: __, put_off_times: ___, ...remainingState } = answer.state ?? state;
  return { ...answer, state: remainingState };
};

export function createEc2Driver(options: Ec2DriverOptions): Driver {
  const { clock, endpoint } = options;
  const host: Ec2Host = {
    clock,
    poll_seconds: options.poll_seconds ?? 2,
    stop_grace_seconds: options.stop_grace_seconds ?? 60,
    on_this_host: endpoint !== null && isLoopbackUrl(endpoint),
    cloudAt: openOnce((region) => openCloud({ region, endpoint, clock })),
    regionsInUse: options.regionsInUse,
    bundleDigest: options.bundleDigest,
    list: createSharedLists(
      clock,
      ({ region }: Cloud) => region,
      (cloud, installation_id) => cloud.instances({ [tagNames.installation_id]: installation_id }),
    ),
    refused: new Set(),
  };

  const placeOf = (target: DriverTarget) => regionOf(target) ?? 'every region in use';

  const createRedact = async (regions: (string | undefined)[], target: DriverTarget | null): Promise<Redact> => {
    const [region] = regions.filter((name) => name !== undefined);
    const secrets =
      region === undefined
        ? null
        : await host
            .cloudAt(region)
            .then((cloud) => cloud.secrets())
            .catch(() => null);
    return createRedactFor(secrets, target);
  };

  const failureOf = async (error: unknown, target: DriverTarget): Promise<DriverFailure | DriverWait> => {
    const reason = retryReasonOf(error);
    const times = reason ? retryCount(target, reason) : 0;
    const redact = await createRedact([regionOf(target)], target);
    const outcome = cloudFailure(error, placeOf(target), redact, times);
    if (!reason || outcome.outcome !== 'wait') return outcome;
    const state = stateForRetry(host, target, reason, times + 1);
    // A machine that waits for capacity still waits for it if EC2 was unreachable in between.
    return { ...outcome, state, ...(state.no_room === true && { waits_for: 'capacity' as const }) };
  };

  const calls = createDriverCalls({
    host,
    clock,
    upstream: 'EC2',
    failureOf,
    timeoutOf: (target) => cloudUnavailable(placeOf(target), 'no answer in time'),
    describe: async (error) => (await createRedact(await options.regionsInUse(), null))(messageOf(error)),
  });

  const change = <T extends DriverTarget>(name: string, call: (host: Ec2Host, target: T) => Promise<DriverOutcome>) =>
    calls.change<T>(name, async (ec2Host, target) => clearBackoff(await call(ec2Host, target), target));

  return {
    name: 'ec2',
    supervision: 'agent',
    launches: true,
    host_bound: false,
    final_proof: 'absent',
    spec_schema: Ec2Spec,
    plan,
    ensure: change('ensure', ensure),
    stop: change('stop', stop),
    clean: change('clean', clean),
    destroy: change('destroy', destroy),
    abort: change('abort', abort),
    prove: calls.read(prove),
    inspect: calls.inspect(inspect),
    diagnose: calls.diagnose(async (ec2Host, target) =>
      diagnose(ec2Host, target, await createRedact([regionOf(target)], target)),
    ),
    list_owned: calls.list(listOwned),
  };
}
