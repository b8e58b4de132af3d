/**
 * The schema of an ec2 pool's `spec`: the kind of machine, its region and its workload. It holds no
 * AWS credentials; those belong to the server.
 */
import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { cleanScript, plainText, setupScript, shellText, workloadCommand, workloadEnv } from '../workload-spec.ts';

const resourceId = (prefix: string, description: string) =>
  Type.String({ pattern: `^${prefix}-[0-9a-f]{8,32}$`, description });

export const Ec2Spec = Type.Object(
  {
    region: Type.String({ pattern: '^[a-z]{2}(-[a-z]+)+-[0-9]{1,2}$', description: 'For example eu-central-1.' }),
    image_id: resourceId('ami', 'The image. It must contain Node 20 or newer, unless `prepare` installs it.'),
    instance_type: Type.String({
      pattern: '^[a-z0-9-]+\\.[a-z0-9-]+$',
      maxLength: 64,
      description: 'For example t3.small.',
    }),
    subnet_id: Type.Optional(resourceId('subnet', "Default: the account's default subnet.")),
    security_group_ids: Type.Optional(
      Type.Array(resourceId('sg', ''), {
        minItems: 1,
        maxItems: 16,
        description: "Default: the network's default security group.",
      }),
    ),
    key_name: Type.Optional(Type.String({ minLength: 1, maxLength: 255, description: 'A key pair for SSH.' })),
    iam_instance_profile: Type.Optional(
      Type.String({
        pattern: '^(arn:[^\\s]+:instance-profile/[\\w+=,.@/-]+|[\\w+=,.@-]{1,128})$',
        maxLength: 512,
        description: "Name or ARN. The server's AWS account must be allowed to pass the profile's role.",
      }),
    ),
    spot: Type.Optional(
      Type.Boolean({ description: 'A spot machine is cheaper, but the provider may take it back at any time.' }),
    ),
    root_volume_gb: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 65_536, description: "Size of the root volume. Default: the image's size." }),
    ),
    metadata_tokens: Type.Optional(
      Type.Enum(['required', 'optional'], {
        description: 'Whether the instance metadata service requires version 2 tokens. Default: required.',
      }),
    ),
    tags: Type.Optional(
      Type.Record(Type.String({ pattern: '^(?!aws:|io\\.slipway\\.)[\\w .:/=+@-]{1,128}$' }), plainText(256), {
        maxProperties: 40,
        additionalProperties: false,
        description: 'Additional tags for the machine, its volumes and its network interfaces.',
      }),
    ),
    prepare: shellText(
      'Shell script that runs as root at the first boot, before the agent is fetched. Can install Node.',
    ),
    setup: setupScript,
    command: workloadCommand,
    env: workloadEnv('Environment of setup, command and clean. It is part of the user-data.'),
    clean: cleanScript,
  },
  { additionalProperties: false },
);
export type Ec2Spec = Static<typeof Ec2Spec>;

const validator = Compile(Ec2Spec);

export const isEc2Spec = (spec: unknown): spec is Ec2Spec => validator.Check(spec);

/**
 * Throws if the spec is invalid. It should have been refused when the pool was declared, so this is
 * a bug; throw before a machine is launched and paid for.
 */
export function ec2Spec(spec: unknown): Ec2Spec {
  if (isEc2Spec(spec)) return spec;
  throw new TypeError('the spec of an ec2 node does not match its schema');
}
