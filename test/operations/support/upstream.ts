/**
 * A simulated provider that knows which machines were launched and which exist. Its driver is
 * idempotent, as every driver must be. It records mistakes: an instance that is launched again
 * after it was gone, or two machines of one node at a time. agents.ts simulates the agents.
 */
import type { NodeInstanceId } from '../../../src/base/ids.ts';
import type { Driver, DriverOutcome, DriverTarget, EnsureTarget } from '../../../src/drivers/driver.ts';
import { simulatedDriver } from '../../scenarios/support/simulated-driver.ts';

/**
 * - well: comes up and does its tasks
 * - mute: comes up, but its agent never contacts the server
 * - crashes: exits during its boot
 * - refused: the provider refuses to create it
 * - dirty: cannot be cleaned until it is repaired
 */
export type Behaviour = 'well' | 'mute' | 'crashes' | 'refused' | 'dirty';

export interface Machine {
  pool: string;
  node_id: string;
  node_instance_id: NodeInstanceId;
  behaviour: Behaviour;
  state: 'creating' | 'running' | 'exited' | 'deleting' | 'gone';
  enrollment_token: string;
  launches: number;
}

export interface Upstream {
  driver: Driver;
  machines: Map<NodeInstanceId, Machine>;
  /** Events that must never happen, by pool. */
  mistakes: { pool: string; what: string }[];
  /** For the machines of a pool in launch order; after the last one all are well. */
  behaviours: Map<string, Behaviour[]>;
  exists(machine: Machine): boolean;
}

const waits = (message: string): DriverOutcome => ({ outcome: 'wait', retry_seconds: 1, message });
const done = (message: string): DriverOutcome => ({ outcome: 'done', message });

export function createUpstream(): Upstream {
  const machines: Upstream['machines'] = new Map();
  const mistakes: Upstream['mistakes'] = [];
  const behaviours: Upstream['behaviours'] = new Map();
  const exists = ({ state }: Machine) => state !== 'gone';
  const of = ({ node_instance_id }: DriverTarget) => machines.get(node_instance_id);

  const launch = ({ pool, node_id, node_instance_id, bootstrap }: EnsureTarget): DriverOutcome => {
    const known = machines.get(node_instance_id);
    const behaviour = known?.behaviour ?? behaviours.get(pool)?.shift() ?? 'well';
    if (behaviour === 'refused') {
      const message = 'the provider refuses';
      return { outcome: 'failed', owner_layer: 'provider', code: 'quota', message, retryable: false };
    }
    if (known) mistakes.push({ pool, what: `${node_instance_id} was launched again after it was gone` });
    const other = [...machines.values()].find((each) => each.node_id === node_id && exists(each));
    if (other) mistakes.push({ pool, what: `${node_id} got a machine while ${other.node_instance_id} exists` });
    const launches = (known?.launches ?? 0) + 1;
    const { enrollment_token } = bootstrap;
    machines.set(node_instance_id, {
      ...{ pool, node_id, node_instance_id, behaviour, enrollment_token, launches },
      state: 'creating',
    });
    return waits('the provider makes it');
  };

  const destroy = async (target: DriverTarget): Promise<DriverOutcome> => {
    const machine = of(target);
    if (!machine || machine.state === 'gone') return done('there is none');
    if (machine.state === 'deleting') {
      machine.state = 'gone';
      return done('it is gone');
    }
    machine.state = 'deleting';
    return waits('the provider ends it');
  };

  const driver = simulatedDriver({
    name: 'yard',
    async ensure(target) {
      const machine = of(target);
      if (!machine || machine.state === 'gone') return launch(target);
      if (machine.state === 'creating') machine.state = machine.behaviour === 'crashes' ? 'exited' : 'running';
      return done('it is launched');
    },
    async observe(target) {
      const state = of(target)?.state ?? 'gone';
      return { state: state === 'gone' ? 'absent' : state, present: state !== 'gone', ready: false, detail: null };
    },
    destroy,
    async prove(target, { kind, nonce }) {
      const machine = of(target);
      if (kind === 'absent' && (!machine || !exists(machine)))
        return { outcome: 'done', proof: { kind, nonce, checked: [{ what: 'the yard', seen: 'nothing' }] } };
      const message = `it cannot be proven ${kind}: it is ${machine?.state ?? 'absent'}`;
      return { outcome: 'failed', owner_layer: 'provider', code: 'not_proven', message, retryable: true };
    },
    async diagnose(target) {
      const state = of(target)?.state ?? 'gone';
      return { summary: `the machine is ${state}`, certain: state === 'exited', attachments: [] };
    },
    async list_owned() {
      return [...machines.values()].filter(exists).map((machine) => ({
        resource: `yard/${machine.node_instance_id}`,
        kind: 'machine',
        node_id: machine.node_id as never,
        node_instance_id: machine.node_instance_id,
      }));
    },
  });
  return { driver, machines, mistakes, behaviours, exists };
}
