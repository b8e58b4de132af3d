/**
 * Launches an instance's machine once. A repeated call finds an earlier launch by its tags. If the
 * machine is not listed yet, the client token makes EC2 treat the repeat as the same launch.
 *
 * A terminated machine is not replaced: the pool's `attempts` decide whether another instance
 * follows. A machine that somebody else stopped is started again a few times.
 */

import type { RunInstancesCommandInput, TagSpecification } from '@aws-sdk/client-ec2';
import { isLoopbackUrl } from '../../base/network/insecure-http.ts';
import { permanentFailure } from '../answers.ts';
import type { DriverFailure, DriverOutcome, DriverState, DriverTarget, DriverWait, EnsureTarget } from '../driver.ts';
import type { Cloud } from './cloud.ts';
import { isTokenMismatch } from './cloud-error.ts';
import { retryReasonOf } from './cloud-failure.ts';
import {
  disownedFailure,
  type Ec2Host,
  findInstance,
  hasEnded,
  mayAppear,
  type PlacedMachine,
  storedId,
} from './ec2-host.ts';
import { type Ec2Spec, ec2Spec } from './spec.ts';
import { type Tags, tagsOf } from './tags.ts';
import { max_user_data_bytes, userData } from './user-data.ts';

/**
 * EC2 accepts at most 64 ASCII characters. `launch` increases only if an earlier token is known to
 * lead to no machine.
 */
const clientToken = ({ node_instance_id }: DriverTarget, launch: number): string =>
  `slipway-${node_instance_id}${launch > 1 ? `-${launch}` : ''}`.slice(0, 64);

const profile = (nameOrArn: string) => (nameOrArn.startsWith('arn:') ? { Arn: nameOrArn } : { Name: nameOrArn });

const tagSpecification = (ResourceType: TagSpecification['ResourceType'], tags: Tags): TagSpecification => ({
  ResourceType,
  Tags: Object.entries(tags).map(([Key, Value]) => ({ Key, Value })),
});

interface Launch {
  target: DriverTarget;
  spec: Ec2Spec;
  user_data: string;
  token: string;
  /** The image's root device, needed only if the pool sets the size of the root volume. */
  root_device: string | null;
}

/** Builds the launch request. Tags and client token are part of it, so no machine lacks them. */
function runRequest({ target, spec, user_data, token, root_device }: Launch): RunInstancesCommandInput {
  const tags = { ...spec.tags, ...tagsOf(target) };
  return {
    ClientToken: token,
    MinCount: 1,
    MaxCount: 1,
    ImageId: spec.image_id,
    InstanceType: spec.instance_type as NonNullable<RunInstancesCommandInput['InstanceType']>,
    UserData: Buffer.from(user_data).toString('base64'),
    TagSpecifications: [
      tagSpecification('instance', tags),
      tagSpecification('volume', tags),
      tagSpecification('network-interface', tags),
    ],
    MetadataOptions: { HttpEndpoint: 'enabled', HttpTokens: spec.metadata_tokens ?? 'required' },
    ...(spec.subnet_id !== undefined && { SubnetId: spec.subnet_id }),
    ...(spec.security_group_ids && { SecurityGroupIds: spec.security_group_ids }),
    ...(spec.key_name !== undefined && { KeyName: spec.key_name }),
    ...(spec.iam_instance_profile !== undefined && { IamInstanceProfile: profile(spec.iam_instance_profile) }),
    ...(spec.spot && {
      InstanceMarketOptions: {
        MarketType: 'spot',
        SpotOptions: { SpotInstanceType: 'one-time', InstanceInterruptionBehavior: 'terminate' },
      },
    }),
    ...(spec.root_volume_gb !== undefined &&
      root_device !== null && {
        BlockDeviceMappings: [
          { DeviceName: root_device, Ebs: { VolumeSize: spec.root_volume_gb, DeleteOnTermination: true } },
        ],
      }),
  };
}

const max_starts = 3;
/** An older launch record is renewed first, because `mayAppear` counts from the record. */
const record_valid_seconds = 10;
/** After this time a machine that was launched with the token would be listed. */
const token_expires_seconds = 300;

/** Finds a reason why the machine could never register, before a launch costs money. */
function findLaunchProblem(host: Ec2Host, { bootstrap }: EnsureTarget, user_data: string): DriverFailure | null {
  if (!host.on_this_host && isLoopbackUrl(bootstrap.server_url))
    return permanentFailure(
      'server_unreachable',
      `the control plane is at ${bootstrap.server_url}, which EC2 machines cannot reach: start the server with --public-url`,
      { owner_layer: 'control_plane' },
    );
  const bytes = Buffer.byteLength(user_data);
  if (bytes > max_user_data_bytes)
    return permanentFailure(
      'user_data_too_large',
      `the user-data of this machine has ${bytes} bytes, but EC2 accepts ${max_user_data_bytes}: shorten the pool's prepare, setup or env, or move them into the image`,
      { owner_layer: 'request' },
    );
  return null;
}

export async function ensure(host: Ec2Host, target: EnsureTarget): Promise<DriverOutcome> {
  const spec = ec2Spec(target.spec);
  const { machines, disowned } = await findInstance(host, target);
  const liveMachine = machines.find((placed) => !hasEnded(placed));
  if (liveMachine) return waitUntilRunning(host, target, liveMachine);
  const [endedMachine] = machines;
  if (endedMachine)
    return permanentFailure(
      'instance_terminated',
      `${endedMachine.row.id} was terminated: ${endedMachine.row.reason ?? 'EC2 gives no reason'}`,
      { phase: 'boot' },
    );
  if (disowned.length > 0) return disownedFailure(disowned);
  const id = storedId(target);
  if (id !== null) return notListedOutcome(host, target, id);
  const digest = await host.bundleDigest();
  if (digest === undefined)
    return permanentFailure('agent_missing', 'this server has no agent bundle: run node scripts/setup.mjs there', {
      owner_layer: 'control_plane',
    });
  const user_data = userData(target, digest);
  const problem = findLaunchProblem(host, target, user_data);
  if (problem) return problem;
  return recordOrLaunch(host, target, spec, user_data);
}

/**
 * Returns the outcome for a machine that was launched but is not listed. Another launch would
 * create a second machine.
 */
function notListedOutcome(host: Ec2Host, target: EnsureTarget, id: string): DriverOutcome {
  if (mayAppear(host, target))
    return {
      outcome: 'wait',
      retry_seconds: host.poll_seconds,
      message: `${id} is launched, but not listed yet`,
      phase: 'request',
    };
  return permanentFailure('instance_gone', `${id} was launched, but EC2 no longer lists it`, { phase: 'boot' });
}

async function waitUntilRunning(
  host: Ec2Host,
  target: EnsureTarget,
  { cloud, row }: PlacedMachine,
): Promise<DriverOutcome> {
  const state: DriverState = { ...target.state, region: cloud.region, instance_id: row.id };
  const wait = (message: string, nextState = state): DriverWait => ({
    outcome: 'wait',
    retry_seconds: host.poll_seconds,
    message,
    phase: 'boot',
    state: nextState,
  });
  if (row.state === 'running')
    return {
      outcome: 'done',
      message: `${row.id} runs in ${cloud.region}${row.private_ip ? ` at ${row.private_ip}` : ''}`,
      phase: 'boot',
      state,
    };
  if (row.state !== 'stopped') return wait(`EC2 shows ${row.id} as ${row.state}`);
  const starts = (typeof state.starts === 'number' ? state.starts : 1) + 1;
  if (starts > max_starts)
    return permanentFailure(
      'instance_stopped',
      `${row.id} was stopped again, after ${starts - 1} starts (${row.reason ?? 'EC2 gives no reason'})`,
      {
        phase: 'boot',
      },
    );
  await cloud.start(row.id);
  return wait(`${row.id} was stopped outside of Slipway and is being started again`, { ...state, starts });
}

async function recordOrLaunch(
  host: Ec2Host,
  target: EnsureTarget,
  spec: Ec2Spec,
  user_data: string,
): Promise<DriverOutcome> {
  const now_ms = host.clock.nowMs();
  const { asked_at_ms } = target.state;
  if (typeof asked_at_ms !== 'number' || now_ms - asked_at_ms > record_valid_seconds * 1000)
    return {
      outcome: 'wait',
      retry_seconds: 0,
      message: `requesting ${spec.instance_type} from EC2 in ${spec.region}`,
      phase: 'request',
      // The boot begins only when EC2 has capacity; a new request alone does not end the wait.
      ...(target.state.no_room === true && { waits_for: 'capacity' as const }),
      state: { ...target.state, region: spec.region, asked_at_ms: now_ms },
    };
  const cloud = await host.cloudAt(spec.region);
  host.refused.delete(target.node_instance_id);
  try {
    return await launch(host, cloud, target, spec, user_data);
  } catch (error) {
    if (isTokenMismatch(error)) return waitForEarlierLaunch(host, target, now_ms);
    // Without an answer the machine may have been launched; after a refusal it was not.
    if (retryReasonOf(error) !== 'away') host.refused.add(target.node_instance_id);
    throw error;
  }
}

const launchNumber = ({ state }: EnsureTarget): number => (typeof state.launch === 'number' ? state.launch : 1);

async function launch(
  host: Ec2Host,
  cloud: Cloud,
  target: EnsureTarget,
  spec: Ec2Spec,
  user_data: string,
): Promise<DriverOutcome> {
  const root_device = spec.root_volume_gb === undefined ? null : await cloud.rootDevice(spec.image_id);
  if (spec.root_volume_gb !== undefined && root_device === null)
    return permanentFailure(
      'image_missing',
      `there is no image ${spec.image_id} in ${spec.region} with a root volume`,
      {
        phase: 'request',
      },
    );
  const token = clientToken(target, launchNumber(target));
  const row = await cloud.run(runRequest({ target, spec, user_data, token, root_device }));
  return {
    outcome: 'wait',
    retry_seconds: host.poll_seconds,
    message: `${row.id} is launched in ${spec.region} (${row.state})`,
    phase: 'boot',
    state: { ...target.state, region: spec.region, instance_id: row.id },
  };
}

/**
 * An earlier launch used the token with other parameters, such as another deadline or certificate.
 * So its machine should appear in the list; if none does, another launch uses another token.
 */
function waitForEarlierLaunch(host: Ec2Host, target: EnsureTarget, now_ms: number): DriverOutcome {
  const { other_since_ms } = target.state;
  const since_ms = typeof other_since_ms === 'number' ? other_since_ms : now_ms;
  const isLost = now_ms - since_ms > token_expires_seconds * 1000;
  return {
    outcome: 'wait',
    retry_seconds: host.poll_seconds,
    message: isLost
      ? 'the machine of an earlier request never appeared; requesting another one'
      : 'this machine was requested before; waiting until EC2 lists it',
    phase: 'request',
    state: isLost
      ? { ...target.state, launch: launchNumber(target) + 1, other_since_ms: null }
      : { ...target.state, other_since_ms: since_ms },
  };
}
