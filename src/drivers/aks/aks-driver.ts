/**
 * Runs nodes as AKS clusters without an agent: each inspection that shows the cluster counts as a
 * heartbeat.
 *
 * Names are derived from the instance's id, and create requests contain our tags. So after a crash
 * between any two steps, any replica finds the resources and continues. Azure's SDKs are loaded at
 * first use.
 */
import type { TokenCredential } from '@azure/identity';
import type { Clock } from '../../base/clock.ts';
import type { Driver, DriverOutcome, DriverTarget } from '../driver.ts';
import { createDriverCalls } from '../driver-call.ts';
import { openOnce } from '../open-once.ts';
import type { AksHost } from './aks-host.ts';
import { openAzure } from './azure/azure.ts';
import { messageOf } from './azure/azure-error.ts';
import { azureFailure, azureUnavailable } from './azure/azure-failure.ts';
import { createCredential, type Environment, redactTokensOf, secretsIn } from './azure/credential.ts';
import { createRedact } from './azure/redact.ts';
import { ensure } from './ensure/ensure.ts';
import { plannedPhases } from './ensure/plan.ts';
import { diagnose, inspect, listOwned, prove } from './inspect.ts';
import { aksSpecSchema } from './spec.ts';
import { abort, clean, destroy, stop } from './teardown.ts';

export interface AksDriverOptions {
  /** The URL of the resource manager, for a cloud other than the public one. */
  endpoint: string | null;
  /** The certificate authority (PEM) for Azure's URLs, if it is not a public one. */
  ca?: string;
  /** This server's Azure account, in the variables that Azure's own tools read. */
  environment: Environment;
  /** Used instead of the account from the environment. */
  credential?: TokenCredential;
  /** Whether a pool may assign roles on resources other than its own clusters. */
  allow_roles_anywhere: boolean;
  clock: Clock;
  /** Returns the `subscription_id` of each pool; empty if no pool uses this driver. */
  subscriptionsInUse(): Promise<(string | null)[]>;
  poll_seconds?: number;
}

/** Short enough that people see the state of the pools change within 20 s. */
const default_poll_seconds = 10;

const signInFailureCodes = /^azure_sign_in_failed$|AuthenticationToken/;
const sign_in_retry_seconds = 30;

/**
 * Azure continues to create a cluster while it refuses our sign-in. So a refused sign-in does not
 * fail the launch. If sign-ins stay refused, the node's deadline ends the launch.
 */
const waitWhileCreating = ({ state }: DriverTarget, answer: DriverOutcome): DriverOutcome =>
  answer.outcome === 'failed' && signInFailureCodes.test(answer.code) && state.cluster_seen === true
    ? {
        ...{ outcome: 'wait', retry_seconds: sign_in_retry_seconds, put_off: true, message: answer.message },
        error: { code: answer.code, owner_layer: answer.owner_layer },
        ...(answer.phase && { phase: answer.phase }),
      }
    : answer;

export function createAksDriver(options: AksDriverOptions): Driver {
  const { clock, environment, ca } = options;
  const redact = createRedact(secretsIn(environment));
  const credential = redactTokensOf(options.credential ?? createCredential(environment, ca), redact);
  const endpoint = options.endpoint?.replace(/\/+$/, '');
  const host: AksHost = {
    clock,
    redact,
    poll_seconds: options.poll_seconds ?? default_poll_seconds,
    azureAt: openOnce((id) => openAzure(id, { credential, endpoint, ca, clock })),
    subscriptionsInUse: async () => {
      const ids = (await options.subscriptionsInUse()).filter((id) => id !== null);
      return [...new Set(ids.map((id) => id.toLowerCase()))];
    },
  };

  const calls = createDriverCalls({
    host,
    clock,
    upstream: 'Azure',
    failureOf: (error) => azureFailure(error, { redact, now_ms: clock.nowMs() }),
    timeoutOf: () => azureUnavailable('no answer in time'),
    describe: (error) => redact(messageOf(error)),
  });
  const ensureCall = calls.change('ensure', ensure);

  return {
    name: 'aks',
    supervision: 'agentless',
    launches: true,
    host_bound: false,
    final_proof: 'absent',
    spec_schema: aksSpecSchema(options),
    plan: plannedPhases,
    ensure: async (target) => waitWhileCreating(target, await ensureCall(target)),
    stop: calls.change('stop', stop),
    clean: calls.change('clean', clean),
    destroy: calls.change('destroy', destroy),
    abort: calls.change('abort', abort),
    prove: calls.read(prove),
    inspect: calls.inspect(inspect),
    diagnose: calls.diagnose(diagnose),
    list_owned: calls.list(listOwned),
  };
}
