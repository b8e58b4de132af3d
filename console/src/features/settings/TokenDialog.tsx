/** Creates a token: name, role, tenant and lifetime. Shows its secret once. */
import { Button, Group, Modal, NumberInput, Radio, Stack, Text, TextInput } from '@mantine/core';
import { useClipboard } from '@mantine/hooks';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { Role, Token } from '../../../../src/contract/security/token.ts';
import { keys } from '../../api/cache/keys.ts';
import { newKey } from '../../api/client.ts';
import { createToken } from '../../api/queries/tokens.ts';
import { DialogForm } from '../../ui/dialog/DialogForm.tsx';
import { IconCheck, IconCopy } from '../../ui/icons.generated.ts';
import styles from '../actions/EnrolmentToken.module.css';
import { roles, roleWords } from './tokens.ts';

interface Props {
  opened: boolean;
  onClose: () => void;
}

export function TokenDialog({ opened, onClose }: Props) {
  const [createdToken, setCreatedToken] = useState<Token | null>(null);
  const close = () => {
    setCreatedToken(null);
    onClose();
  };
  return (
    <Modal
      opened={opened}
      onClose={close}
      title={createdToken ? `Token ${createdToken.name}` : 'Create token'}
      closeButtonProps={{ 'aria-label': 'Close' }}
      // A stray click must not lose a secret that is shown only once.
      closeOnClickOutside={createdToken === null}
      closeOnEscape={createdToken === null}
    >
      {createdToken ? (
        <Secret token={createdToken.token ?? ''} onClose={close} />
      ) : (
        <Form onCreated={setCreatedToken} onClose={close} />
      )}
    </Modal>
  );
}

const namePattern = '[a-z0-9]([a-z0-9.\\-]{0,61}[a-z0-9])?';
const dayInSeconds = 86_400;

function Form({ onCreated, onClose }: { onCreated: (token: Token) => void; onClose: () => void }) {
  const cache = useQueryClient();
  const [key] = useState(newKey);
  const [name, setName] = useState('');
  const [role, setRole] = useState<Role>('viewer');
  const [tenant, setTenant] = useState('');
  const [days, setDays] = useState<number | string>('');
  const mutation = useMutation({
    mutationFn: () =>
      createToken(
        {
          name,
          role,
          ...(tenant && { tenant }),
          ...(typeof days === 'number' && { ttl_seconds: days * dayInSeconds }),
        },
        key,
      ),
    onSuccess: (token) => {
      void cache.invalidateQueries({ queryKey: keys.tokens() });
      onCreated(token);
    },
  });
  return (
    <DialogForm isReady={name !== ''} button="Create" mutation={mutation} onClose={onClose}>
      <TextInput
        label="Name"
        description="The person or program that uses the token. Recorded with every action"
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
        pattern={namePattern}
        required
        data-autofocus
      />
      <Radio.Group
        label="Role"
        value={role}
        onChange={(value) => setRole(roles.find((each) => each === value) ?? 'viewer')}
      >
        <Stack gap={6} mt={4}>
          {roles.map((each) => (
            <Radio key={each} value={each} label={`${each}: ${roleWords[each]}`} />
          ))}
        </Stack>
      </Radio.Group>
      <TextInput
        label="Tenant"
        description="Optional. Limits the token to this tenant"
        value={tenant}
        onChange={(event) => setTenant(event.currentTarget.value)}
        pattern={namePattern}
      />
      <NumberInput
        label="Ends after"
        description="Optional. Otherwise the token works until you revoke it"
        suffix=" days"
        min={1}
        max={3650}
        value={days}
        onChange={setDays}
      />
    </DialogForm>
  );
}

function Secret({ token, onClose }: { token: string; onClose: () => void }) {
  const clipboard = useClipboard({ timeout: 1500 });
  return (
    <Stack gap="md">
      <Text>
        Copy the token now. <b>It is not shown again.</b>
      </Text>
      <code className={styles.line}>{token}</code>
      <Group justify="flex-end" gap="xs">
        <Button
          variant="default"
          leftSection={clipboard.copied ? <IconCheck size={15} aria-hidden /> : <IconCopy size={15} aria-hidden />}
          onClick={() => clipboard.copy(token)}
        >
          {clipboard.copied ? 'Copied' : 'Copy'}
        </Button>
        <Button onClick={onClose}>Finish</Button>
      </Group>
    </Stack>
  );
}
