/**
 * Launches an instance's machine, once. An earlier launch is found by its tags, or, if it is not
 * listed yet, by its client token, which makes a repeat the same launch. A terminated machine is
 * not replaced: the pool's `attempts` decide about another instance. One that was stopped from
 * outside is started again a few times.
 */

import type { RunInstancesCommandInput, TagSpecification } from '@aws-sdk/client-ec2';
import { isLoopbackUrl } from '../../base/network/insecure-http.ts';
import { permanentFailure } from '../answers.ts';
import type { DriverFailure, DriverOutcome, DriverState, DriverTarget, DriverWait, EnsureTarget } from '../driver.ts';
import type { Cloud } from './cloud.ts';
import { isTokenOfOther } from './cloud-error.ts';
import { refusedFor } from './cloud-failure.ts';
import { disownedFailure, type Ec2Host, hasEnded, keptId, mayAppear, ownAnywhere, type Placed } from './ec2-host.ts';
import { type Ec2Spec, ec2Spec } from './spec.ts';
import { type Tags, tagsOf } from './tags.ts';
import { max_user_data_bytes, userData } from './user-data.ts';

/**
 * At most 64 ASCII characters. `launch` increases only if a token is known to lead to no machine.
 */
const clientToken = ({ node_instance_id }: DriverTarget, launch: number): string =>
  `slipway-${node_instance_id}${launch > 1 ? `-${launch}` : ''}`.slice(0, 64);

const profile = (named: string) => (named.startsWith('arn:') ? { Arn: named } : { Name: named });

const tagged = (ResourceType: TagSpecification['ResourceType'], tags: Tags): TagSpecification => ({
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

/**
 * The launch request, with all tags, and with a client token that makes a repeat the same launch.
 */
function runRequest({ target, spec, user_data, token, root_device }: Launch): RunInstancesCommandInput {
  const tags = { ...spec.tags, ...tagsOf(target) };
  return {
    ClientToken: token,
    MinCount: 1,
    MaxCount: 1,
    ImageId: spec.image_id,
    InstanceType: spec.instance_type as NonNullable<RunInstancesCommandInput['InstanceType']>,
    UserData: Buffer.from(user_data).toString('base64'),
    TagSpecifications: [tagged('instance', tags), tagged('volume', tags), tagged('network-interface', tags)],
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
/** A launch record older than this is written again before the launch is requested. */
const record_valid_seconds = 10;
/** By then a machine launched with this token would be listed. */
const token_expires_seconds = 300;

/** Fails before anything costs money if the machine could never register. */
function cannotWork(host: Ec2Host, { bootstrap }: EnsureTarget, user_data: string): DriverFailure | null {
  if (!host.on_this_host && isLoopbackUrl(bootstrap.server_url))
    return permanentFailure(
      'server_unreachable',
      `the control plane is at ${bootstrap.server_url}, which no machine of EC2 reaches: give the server a --public-url`,
      { owner_layer: 'control_plane' },
    );
  const bytes = Buffer.byteLength(user_data);
  if (bytes > max_user_data_bytes)
    return permanentFailure(
      'user_data_too_large',
      `what this machine is given at its first boot has ${bytes} bytes, and EC2 takes ${max_user_data_bytes}: let the pool's prepare, setup or env be shorter, or put it into the image`,
      { owner_layer: 'request' },
    );
  return null;
}

export async function ensure(host: Ec2Host, target: EnsureTarget): Promise<DriverOutcome> {
  const spec = ec2Spec(target.spec);
  const { found, disowned } = await ownAnywhere(host, target);
  const living = found.find((placed) => !hasEnded(placed));
  if (living) return comingUp(host, target, living);
  const [ended] = found;
  if (ended)
    return permanentFailure(
      'instance_terminated',
      `${ended.row.id} was terminated${ended.row.reason ? `: ${ended.row.reason}` : ', and EC2 does not say why'}`,
      { phase: 'boot' },
    );
  if (disowned.length > 0) return disownedFailure(disowned);
  const id = keptId(target);
  if (id !== null) return notListed(host, target, id);
  const digest = await host.bundleDigest();
  if (digest === undefined)
    return permanentFailure('agent_missing', 'this server has no agent to hand out: run node scripts/setup.mjs there', {
      owner_layer: 'control_plane',
    });
  const user_data = userData(target, digest);
  const problem = cannotWork(host, target, user_data);
  if (problem) return problem;
  return recordOrLaunch(host, target, spec, user_data);
}

/** It was launched but is not listed. Never a reason to launch another. */
function notListed(host: Ec2Host, target: EnsureTarget, id: string): DriverOutcome {
  if (mayAppear(host, target))
    return {
      outcome: 'wait',
      retry_seconds: host.poll_seconds,
      message: `${id} is launched and not listed yet`,
      phase: 'request',
    };
  return permanentFailure('instance_gone', `${id} was launched, and EC2 no longer knows it`, { phase: 'boot' });
}

async function comingUp(host: Ec2Host, target: EnsureTarget, { cloud, row }: Placed): Promise<DriverOutcome> {
  const state: DriverState = { ...target.state, region: cloud.region, instance_id: row.id };
  const waiting = (message: string, kept = state): DriverWait => ({
    outcome: 'wait',
    retry_seconds: host.poll_seconds,
    message,
    phase: 'boot',
    state: kept,
  });
  if (row.state === 'running')
    return {
      outcome: 'done',
      message: `${row.id} runs in ${cloud.region}${row.private_ip ? ` at ${row.private_ip}` : ''}`,
      phase: 'boot',
      state,
    };
  if (row.state !== 'stopped') return waiting(`EC2 shows ${row.id} as ${row.state}`);
  const starts = (typeof state.starts === 'number' ? state.starts : 1) + 1;
  if (starts > max_starts)
    return permanentFailure(
      'instance_stopped',
      `${row.id} was stopped again, after ${starts - 1} starts (${row.reason ?? 'EC2 does not say why'})`,
      {
        phase: 'boot',
      },
    );
  await cloud.start(row.id);
  return waiting(`${row.id} was stopped from outside and is started again`, { ...state, starts });
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
      message: `asking EC2 in ${spec.region} for ${spec.instance_type}`,
      phase: 'request',
      // A request is no admission: until there is capacity, the boot has not begun.
      ...(target.state.no_room === true && { waits_for: 'capacity' as const }),
      state: { ...target.state, region: spec.region, asked_at_ms: now_ms },
    };
  const cloud = await host.cloudAt(spec.region);
  host.refused.delete(target.node_instance_id);
  try {
    return await launch(host, cloud, target, spec, user_data);
  } catch (error) {
    if (isTokenOfOther(error)) return launchedOtherwise(host, target, now_ms);
    // Without an answer it is unknown whether it was launched; a refusal means that it was not.
    if (refusedFor(error) !== 'away') host.refused.add(target.node_instance_id);
    throw error;
  }
}

const launchOf = ({ state }: EnsureTarget): number => (typeof state.launch === 'number' ? state.launch : 1);

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
  const token = clientToken(target, launchOf(target));
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
 * The token was used with other parameters (a moved deadline, another certificate): the machine
 * exists already and will be listed.
 */
function launchedOtherwise(host: Ec2Host, target: EnsureTarget, now_ms: number): DriverOutcome {
  const { other_since_ms } = target.state;
  const since = typeof other_since_ms === 'number' ? other_since_ms : now_ms;
  const lost = now_ms - since > token_expires_seconds * 1000;
  return {
    outcome: 'wait',
    retry_seconds: host.poll_seconds,
    message: lost
      ? 'the machine of an earlier request never appeared; another is asked for'
      : 'this machine was asked for before; waiting until EC2 lists it',
    phase: 'request',
    state: lost
      ? { ...target.state, launch: launchOf(target) + 1, other_since_ms: null }
      : { ...target.state, other_since_ms: since },
  };
}
