/**
 * The request that launches a machine, with all tags, and with a client token that makes a repeat
 * the same launch.
 */
import type { RunInstancesCommandInput, TagSpecification } from '@aws-sdk/client-ec2';
import type { DriverTarget } from '../driver.ts';
import type { Ec2Spec } from './spec.ts';
import { type Tags, tagsOf } from './tags.ts';

/**
 * At most 64 ASCII characters. `launch` increases only if a token is known to lead to no machine.
 */
export const clientToken = ({ node_instance_id }: DriverTarget, launch: number): string =>
  `slipway-${node_instance_id}${launch > 1 ? `-${launch}` : ''}`.slice(0, 64);

const profile = (named: string) => (named.startsWith('arn:') ? { Arn: named } : { Name: named });

const tagged = (ResourceType: TagSpecification['ResourceType'], tags: Tags): TagSpecification => ({
  ResourceType,
  Tags: Object.entries(tags).map(([Key, Value]) => ({ Key, Value })),
});

export interface Launch {
  target: DriverTarget;
  spec: Ec2Spec;
  user_data: string;
  token: string;
  /** The image's root device, needed only if the pool sets the size of the root volume. */
  root_device: string | null;
}

export function runRequest({ target, spec, user_data, token, root_device }: Launch): RunInstancesCommandInput {
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
