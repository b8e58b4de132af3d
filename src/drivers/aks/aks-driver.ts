/**
 * Nodes as AKS clusters. No agent runs in them: Azure is looked at, and what it says is the heartbeat.
 *
 * Names follow from the instance's id and tags are in the requests that create, so a crash between any two steps loses nothing, and
 * any replica goes on where another stopped. Azure's SDKs are loaded when the first subscription is asked.
 */
import type { TokenCredential } from '@azure/identity';
import type { Clock } from '../../base/clock.ts';
import { createBounds } from '../bounds.ts';
import type { Driver, DriverFailure, DriverOutcome, DriverTarget, DriverWait } from '../driver.ts';
import { openOnce } from '../open-once.ts';
import { unseen } from '../unseen.ts';
import type { AksHost } from './aks-host.ts';
import { openAzure } from './azure/azure.ts';
import { wordsOf } from './azure/azure-error.ts';
import { azureAway, azureFailure } from './azure/azure-failure.ts';
import { createCredential, type Environment, keptSecret, secretsIn } from './azure/credential.ts';
import { createStrike } from './azure/redact.ts';
import { diagnose } from './diagnose.ts';
import { ensure } from './ensure/ensure.ts';
import { plannedPhases } from './ensure/phases.ts';
import { listOwned, observe, prove } from './inspect.ts';
import { aksSpecSchema } from './spec.ts';
import { abort, clean, destroy, stop } from './teardown.ts';

export interface AksDriverOptions {
  /** The resource manager of another cloud than the public one. */
  endpoint: string | null;
  /** PEM: who vouches for Azure's addresses, where it is nobody whom every machine trusts. */
  ca?: string;
  /** Who this server is in Azure, as Azure's own tools read it. */
  environment: Environment;
  /** Instead of what stands in the environment. */
  credential?: TokenCredential;
  /** Whether a pool may give roles on more than its own clusters. */
  allow_roles_anywhere: boolean;
  clock: Clock;
  /** What pools name as `subscription_id`; empty where no pool uses this driver. */
  subscriptionsInUse(): Promise<(string | null)[]>;
  look_seconds?: number;
}

/** A person sees the pools anew at least every 20 s. */
const usual_look_seconds = 10;

const silent = (): DriverWait => azureAway('no answer in time');

const notLetIn = /^azure_sign_in_failed$|AuthenticationToken/;
const let_in_again_seconds = 30;

/** Azure goes on with what it was asked for, also while it does not let us in to look at it; its deadline ends that, and not a look. */
const notWhileCreating = ({ state }: DriverTarget, answer: DriverOutcome): DriverOutcome =>
  answer.outcome === 'failed' && notLetIn.test(answer.code) && state.cluster_seen === true
    ? {
        ...{ outcome: 'wait', retry_seconds: let_in_again_seconds, put_off: true, message: answer.message },
        error: { code: answer.code, owner_layer: answer.owner_layer },
        ...(answer.phase && { phase: answer.phase }),
      }
    : answer;

export function createAksDriver(options: AksDriverOptions): Driver {
  const { clock, environment, ca } = options;
  const bounds = createBounds(clock, 'Azure');
  const strike = createStrike(secretsIn(environment));
  const credential = keptSecret(options.credential ?? createCredential(environment, ca), strike);
  const endpoint = options.endpoint?.replace(/\/+$/, '');
  const host: AksHost = {
    clock,
    strike,
    look_seconds: options.look_seconds ?? usual_look_seconds,
    azureAt: openOnce((id) => openAzure(id, { credential, endpoint, ca, clock })),
    subscriptionsInUse: async () => {
      const named = (await options.subscriptionsInUse()).filter((id) => id !== null);
      return [...new Set(named.map((id) => id.toLowerCase()))];
    },
  };

  const told = async <Outcome>(asked: Promise<Outcome>): Promise<Outcome | DriverFailure | DriverWait> => {
    try {
      return await asked;
    } catch (error) {
      return azureFailure(error, { strike, now_ms: clock.nowMs() });
    }
  };

  const working =
    <T extends DriverTarget>(name: string, call: (host: AksHost, target: T) => Promise<DriverOutcome>) =>
    (target: T): Promise<DriverOutcome> =>
      bounds.once(target.node_instance_id, name, () => told(call(host, target)));

  return {
    name: 'aks',
    supervision: 'observe',
    launches: true,
    host_bound: false,
    final_proof: 'absent',
    spec_schema: aksSpecSchema(options),
    plan: plannedPhases,
    ensure: async (target) => notWhileCreating(target, await working('ensure', ensure)(target)),
    stop: working('stop', stop),
    clean: working('clean', clean),
    destroy: working('destroy', destroy),
    abort: working('abort', abort),
    prove: async (target, asked) => (await bounds.within(told(prove(host, target, asked)))) ?? silent(),
    async observe(target) {
      const seen = (await bounds.within(told(observe(host, target)))) ?? silent();
      return 'outcome' in seen ? unseen(seen.message) : seen;
    },
    async diagnose(target) {
      const seen = (await bounds.within(told(diagnose(host, target)))) ?? silent();
      return 'outcome' in seen ? { summary: seen.message, certain: false, attachments: [] } : seen;
    },
    async list_owned(installation_id) {
      const listed = await bounds.within(listOwned(host, installation_id)).catch((error: unknown) => {
        throw new Error(`Azure could not list what it holds: ${strike(wordsOf(error))}`);
      });
      if (!listed) throw new Error('Azure did not list in time what it holds');
      return listed;
    },
  };
}
