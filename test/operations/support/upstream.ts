/**
 * A simulated provider that remembers which machines were launched and which exist. Its driver is
 * idempotent, as every driver must be. The provider records two errors of its caller: an instance
 * is launched again after its machine was gone, and a node has two machines at a time. agents.ts
 * simulates the agents.
 */
import type { NodeInstanceId } from '../../../src/base/ids.ts';
import type { Driver, DriverOutcome, DriverTarget, EnsureTarget } from '../../../src/drivers/driver.ts';
import { simulatedDriver } from '../../scenarios/support/simulated-driver.ts';

/**
 * - well: the machine comes up and runs its tasks
 * - mute: the machine comes up, but its agent never contacts the server
 * - crashes: the machine exits during its boot
 * - refused: the provider refuses to create the machine
 * - dirty: the machine cannot be cleaned until it is repaired
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
  /** Calls that a correct control plane never makes. */
  problems: { pool: string; description: string }[];
  /** The behaviours of a pool's first machines in launch order; all later machines are well. */
  behaviours: Map<string, Behaviour[]>;
  exists(machine: Machine): boolean;
}

const wait = (message: string): DriverOutcome => ({ outcome: 'wait', retry_seconds: 1, message });
const done = (message: string): DriverOutcome => ({ outcome: 'done', message });

export function createUpstream(): Upstream {
  const machines: Upstream['machines'] = new Map();
  const problems: Upstream['problems'] = [];
  const behaviours: Upstream['behaviours'] = new Map();
  const exists = ({ state }: Machine) => state !== 'gone';
  const machineOf = ({ node_instance_id }: DriverTarget) => machines.get(node_instance_id);

  const launch = ({ pool, node_id, node_instance_id, bootstrap }: EnsureTarget): DriverOutcome => {
    const formerMachine = machines.get(node_instance_id);
    const behaviour = formerMachine?.behaviour ?? behaviours.get(pool)?.shift() ?? 'well';
    if (behaviour === 'refused') {
      const message = 'the provider refuses';
      return { outcome: 'failed', owner_layer: 'provider', code: 'quota', message, retryable: false };
    }
    if (formerMachine)
      problems.push({ pool, description: `${node_instance_id} was launched again after its machine was gone` });
    const otherMachine = [...machines.values()].find((machine) => machine.node_id === node_id && exists(machine));
    if (otherMachine)
      problems.push({ pool, description: `${node_id} got a machine while ${otherMachine.node_instance_id} exists` });
    const launches = (formerMachine?.launches ?? 0) + 1;
    const { enrollment_token } = bootstrap;
    machines.set(node_instance_id, {
      ...{ pool, node_id, node_instance_id, behaviour, enrollment_token, launches },
      state: 'creating',
    });
    return wait('the provider creates the machine');
  };

  const destroy = async (target: DriverTarget): Promise<DriverOutcome> => {
    const machine = machineOf(target);
    if (!machine || machine.state === 'gone') return done('the machine does not exist');
    if (machine.state === 'deleting') {
      machine.state = 'gone';
      return done('the machine is gone');
    }
    machine.state = 'deleting';
    return wait('the provider deletes the machine');
  };

  const driver = simulatedDriver({
    name: 'yard',
    async ensure(target) {
      const machine = machineOf(target);
      if (!machine || machine.state === 'gone') return launch(target);
      if (machine.state === 'creating') machine.state = machine.behaviour === 'crashes' ? 'exited' : 'running';
      return done('the machine is launched');
    },
    async inspect(target) {
      const state = machineOf(target)?.state ?? 'gone';
      return { state: state === 'gone' ? 'absent' : state, present: state !== 'gone', ready: false, detail: null };
    },
    destroy,
    async prove(target, { kind, nonce }) {
      const machine = machineOf(target);
      if (kind === 'absent' && (!machine || !exists(machine)))
        return { outcome: 'done', proof: { kind, nonce, checked: [{ what: 'the yard', seen: 'nothing' }] } };
      const message = `the machine cannot be proven ${kind}: its state is ${machine?.state ?? 'absent'}`;
      return { outcome: 'failed', owner_layer: 'provider', code: 'not_proven', message, retryable: true };
    },
    async diagnose(target) {
      const state = machineOf(target)?.state ?? 'gone';
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
  return { driver, machines, problems, behaviours, exists };
}
