/**
 * Translate what the settings editor shows of our settings: JupyterLab's server knows the words
 * of language packs only.
 */
import type { ISettingRegistry } from '@jupyterlab/settingregistry';

type Schema = ISettingRegistry.ISchema;
type Translate = (context: string, text: string) => string;

/** A copy of `schema` whose titles and descriptions are translated. */
export function translateSchema(schema: Schema, translate: Translate): Schema {
  const words = <T extends { title?: string; description?: string }>(
    one: T,
    context: string
  ): T => ({
    ...one,
    ...(one.title && { title: translate(context, one.title) }),
    ...(one.description && { description: translate(context, one.description) })
  });
  const properties = Object.entries(schema.properties ?? {}).map(
    ([name, property]) => [name, words(property, 'settings')]
  );
  const label = schema['jupyter.lab.setting-icon-label'];
  return {
    ...words(schema, 'schema'),
    ...(label && {
      'jupyter.lab.setting-icon-label': translate('settings', label)
    }),
    properties: Object.fromEntries(properties)
  };
}
