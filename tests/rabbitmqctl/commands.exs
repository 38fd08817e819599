# Prints the commands of rabbitmqctl, rabbitmq-diagnostics and rabbitmq-queues as JSON, by what their modules say of themselves.
# record.py runs this with "rabbitmqctl exec" if it is given --commands.
defaults = fn module, words -> try do module.merge_defaults(words, %{}) rescue _ -> {words, %{}} end end
marks = fn count -> Enum.map(Enum.take(0..9, count), fn at -> "{#{at}}" end) end
named = %{vhost: "{vhost}", node: :"{node}", user: "{user}", apply_to: "{apply_to}", priority: "{priority}",
          limit: 0, timeout: 60000, per_connection_delay: 0, global: false}

count_is = fn module, count, wrong ->
  {words, options} = defaults.(module, List.duplicate("1", count))
  try do
    case module.validate(words, Map.merge(%{node: :node, vhost: "/"}, options)) do
      {:validation_failure, {^wrong, _}} -> true
      {:validation_failure, reason} -> reason == wrong
      _ -> false
    end
  rescue
    _ -> false
  end
end

described = fn module ->
  parts = Module.split(module)
  least = Enum.find(0..6, 0, fn count -> not count_is.(module, count, :not_enough_args) end)
  most = Enum.find(6..0//-1, fn count -> not count_is.(module, count, :too_many_args) end)
  {columns, options} = defaults.(module, [])
  given = Map.merge(named, Map.drop(options, [:vhost, :user, :priority, :apply_to]))
  # A command that takes any number of words has one mark more, for all that remain.
  counts = [least + (if most == 6, do: 1, else: 0), least, most, 0, 1, 2, 3]
  banner = Enum.find_value(counts, fn count ->
    try do
      case module.banner(marks.(count), given) do
        nil -> nil
        text when is_list(text) -> if Enum.all?(text, &is_binary/1), do: Enum.join(text, "\n"), else: to_string(text)
        text -> to_string(text)
      end
    rescue
      _ -> nil
    end
  end)
  scopes = try do Enum.map(module.scopes(), &to_string/1) rescue _ -> [String.downcase(Enum.at(parts, 2))] end
  switches = try do Map.new(module.switches(), fn {name, kind} -> {name, kind} end) rescue _ -> %{} end
  aliases = try do Map.new(module.aliases(), fn {letter, name} -> {letter, name} end) rescue _ -> %{} end
  known = try do Enum.map(module.info_keys(), &to_string/1) rescue _ -> [] end
  formatter = try do module.formatter() |> Module.split() |> List.last() |> Macro.underscore() rescue _ -> nil end
  name = parts |> List.last() |> String.replace_suffix("Command", "") |> Macro.underscore()
  {name, %{usage: String.trim(to_string(module.usage())), scopes: scopes, words: [min(least, most), (if most == 6, do: nil, else: most)],
           columns: columns, known: known, formatter: formatter, banner: banner, switches: switches, aliases: aliases}}
end

modules = for module <- Application.spec(:rabbitmqctl, :modules), String.ends_with?(to_string(module), "Command"),
              Code.ensure_loaded?(module), function_exported?(module, :run, 2), do: module
wanted = for {name, row} <- Enum.map(modules, described), Enum.any?(row.scopes, &(&1 in ["ctl", "diagnostics", "queues"])), do: {name, row}
IO.puts(JSON.encode!(Map.new(wanted)))
