/** Shows a new enrolment token once, inside the command that uses it. */
import { Button, Group, Stack, Text } from '@mantine/core';
import { useClipboard } from '@mantine/hooks';
import { IconCheck, IconCopy } from '../../ui/icons.generated.ts';
import styles from './EnrolmentToken.module.css';
import { enrolLine } from './enrolment.ts';

interface Props {
  token: string;
  onClose: () => void;
}

export function EnrolmentToken({ token, onClose }: Props) {
  const clipboard = useClipboard({ timeout: 1500 });
  const line = enrolLine(token, window.location.origin);
  return (
    <Stack gap="md">
      <Text>
        Start the agent on the machine with this command. <b>The token is not shown again.</b>
      </Text>
      <code className={styles.line}>{line}</code>
      <Group justify="flex-end" gap="xs">
        <Button
          variant="default"
          leftSection={clipboard.copied ? <IconCheck size={15} aria-hidden /> : <IconCopy size={15} aria-hidden />}
          onClick={() => clipboard.copy(line)}
        >
          {clipboard.copied ? 'Copied' : 'Copy'}
        </Button>
        <Button onClick={onClose}>Finish</Button>
      </Group>
    </Stack>
  );
}
